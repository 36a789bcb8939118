//! A link to a server that takes time: what is sent arrives later by a delay, in both directions. It
//! can lose an answer.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use docstokg_policy::time::{BootInstant, Clock};
use docstokg_stores::clock::SystemClock;

/// A link, which lasts as long as the process.
pub(crate) struct SlowLink {
    port: u16,
    loses_next_answer: Arc<AtomicBool>,
}

impl SlowLink {
    /// Starts a link to a port of this machine.
    pub(crate) fn start(to: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let link = Self {
            port: listener.local_addr().expect("an address").port(),
            loses_next_answer: Arc::default(),
        };
        let loses = Arc::clone(&link.loses_next_answer);
        std::thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                for stream in [&near, &far] {
                    stream.set_nodelay(true).expect("a TCP stream");
                }
                let again = [&near, &far].map(|stream| stream.try_clone().expect("a socket"));
                let [near_again, far_again] = again;
                carry(near, far_again, delay, Arc::default());
                carry(far, near_again, delay, Arc::clone(&loses));
            }
        });
        link
    }

    /// Returns the DSN of a database behind the link.
    pub(crate) fn dsn(&self, database: u64) -> String {
        format!("redis://127.0.0.1:{}/{database}", self.port)
    }

    /// Lets the next answer of the server not arrive: the connection breaks instead.
    #[allow(dead_code, reason = "a measurement loses no answer")]
    pub(crate) fn lose_next_answer(&self) {
        self.loses_next_answer.store(true, Ordering::SeqCst);
    }
}

/// Carries what one socket sends to another, until it ends or is to be lost.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration, loses: Arc<AtomicBool>) {
    let (sender, receiver) = mpsc::channel::<(BootInstant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            if loses.swap(false, Ordering::SeqCst) {
                let _ = from.shutdown(Shutdown::Both);
                break;
            }
            let sent = sender.send((SystemClock.boot(), buffer[..length].to_vec()));
            if sent.is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for (sent, bytes) in receiver {
            wait(delay.saturating_sub(SystemClock.boot().since(sent)));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}

#[expect(clippy::disallowed_methods, reason = "the delay of a real connection")]
fn wait(length: Duration) {
    std::thread::sleep(length);
}
