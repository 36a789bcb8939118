//! The stored form of [`Windows`], from which derived values are computed again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Windows;
use crate::pacing::{Pacing, Spacing};
use crate::rate::Window;

/// The stored form of [`Windows`].
#[derive(Serialize, Deserialize)]
pub(super) struct WrittenWindows {
    list: Box<[Window]>,
    guard: Duration,
    pacing: Pacing,
    /// The windows whose requests are spaced.
    spaced: Vec<Window>,
}

impl From<Windows> for WrittenWindows {
    fn from(windows: Windows) -> Self {
        let spaced = windows.spacings.iter().map(Spacing::limit).copied();
        Self {
            spaced: spaced.collect(),
            list: windows.list,
            guard: windows.guard,
            pacing: windows.pacing,
        }
    }
}

impl From<WrittenWindows> for Windows {
    fn from(written: WrittenWindows) -> Self {
        let spaced = written.spaced;
        let is_spaced = |window: &Window| spaced.contains(window);
        Self::spaced(written.list, written.guard, written.pacing, is_spaced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::parse_rates;

    #[test]
    fn windows_are_read_as_they_were_written() {
        let rates = [
            "3/SECOND",
            "50/SECOND+5000/HOUR",
            "1/SECOND+90/MINUTE+500/HOUR",
            "500/HOUR",
            "30/20SECOND+600/20MINUTE",
            "1/HOUR",
        ];
        for rate in rates {
            for pacing in [Pacing::Burst, Pacing::Even] {
                let list = parse_rates(rate).expect("rates");
                let own = Windows::paced(list, Duration::from_millis(10), pacing);
                let mut stated = own.list().to_vec();
                stated[0] = Window::new(stated[0].limit, stated[0].per * 2);
                for windows in [own.with_stated(stated), own] {
                    let bytes = postcard::to_allocvec(&windows).expect("bytes");
                    let read: Windows = postcard::from_bytes(&bytes).expect("windows");
                    assert_eq!(read, windows, "{rate}");
                }
            }
        }
    }
}
