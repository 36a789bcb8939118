//! Units of the learner: lengths of time, instants and rates, as separate types.
//!
//! The state stores lengths and rates as `f32`, which halves their size; calculations use `f64`.

use std::ops::{Add, Div, Mul, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A length of time in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(super) struct Seconds<F = f64>(pub(super) F);

/// An instant in seconds after the origin of a [`Learner`](super::Learner). Negative if the origin
/// has moved past it.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(super) struct LearnerInstant(pub(super) f64);

/// A rate in requests per second.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
pub(super) struct RequestRate<F = f64>(pub(super) F);

macro_rules! ordered {
    ($($name:ty),*) => {$(
        impl $name {
            pub(super) fn max(self, other: Self) -> Self {
                Self(self.0.max(other.0))
            }

            pub(super) fn min(self, other: Self) -> Self {
                Self(self.0.min(other.0))
            }
        }
    )*};
}

ordered!(
    Seconds,
    Seconds<f32>,
    LearnerInstant,
    RequestRate,
    RequestRate<f32>
);

macro_rules! operators {
    ($($left:ident $trait:ident::$method:ident $right:ident -> $output:ident;)*) => {$(
        impl $trait<$right> for $left {
            type Output = $output;

            fn $method(self, other: $right) -> $output {
                $output::from($trait::$method(f64::from(self), f64::from(other)))
            }
        }
    )*};
}

operators! {
    Seconds Add::add Seconds -> Seconds;
    Seconds Sub::sub Seconds -> Seconds;
    f64 Mul::mul Seconds -> Seconds;
    Seconds Div::div f64 -> Seconds;
    Seconds Div::div Seconds -> f64;
    f64 Div::div Seconds -> RequestRate;
    LearnerInstant Add::add Seconds -> LearnerInstant;
    LearnerInstant Sub::sub Seconds -> LearnerInstant;
    LearnerInstant Sub::sub LearnerInstant -> Seconds;
    f64 Div::div RequestRate -> Seconds;
    f64 Mul::mul RequestRate -> RequestRate;
    RequestRate Div::div RequestRate -> f64;
}

macro_rules! conversions {
    ($($name:ident),*) => {$(
        impl From<f64> for $name {
            fn from(number: f64) -> Self {
                Self(number)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    )*};
}

conversions!(Seconds, LearnerInstant, RequestRate);

impl Seconds {
    pub(super) fn clamp(self, least: Self, most: Self) -> Self {
        Self(self.0.clamp(least.0, most.0))
    }

    pub(super) fn narrow(self) -> Seconds<f32> {
        Seconds(self.0 as f32)
    }
}

impl Seconds<f32> {
    pub(super) fn wide(self) -> Seconds {
        Seconds(f64::from(self.0))
    }
}

impl RequestRate {
    pub(super) fn narrow(self) -> RequestRate<f32> {
        RequestRate(self.0 as f32)
    }
}

impl RequestRate<f32> {
    pub(super) fn wide(self) -> RequestRate {
        RequestRate(f64::from(self.0))
    }

    /// Returns the distance between two requests at this rate.
    pub(super) fn distance(self) -> Seconds {
        1.0 / self.wide()
    }
}

impl LearnerInstant {
    pub(super) const ORIGIN: Self = Self(0.0);

    /// Returns the later of two instants, of which the first is optional.
    pub(super) fn later(first: Option<Self>, second: Self) -> Self {
        first.map_or(second, |first| first.max(second))
    }
}

/// The stored form of an optional [`LearnerInstant`]: absence is a number before all others.
pub(super) mod stored_instant {
    use super::{Deserialize, Deserializer, LearnerInstant, Serialize, Serializer};

    pub(in super::super) const NEVER: f64 = -1e9;

    pub(in super::super) fn serialize<S: Serializer>(
        at: &Option<LearnerInstant>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        at.map_or(NEVER, f64::from).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<LearnerInstant>, D::Error> {
        let at = f64::deserialize(deserializer)?;
        Ok((at > NEVER).then_some(LearnerInstant(at)))
    }
}

/// The stored form of an optional [`Seconds`]: a flag for its presence, and the length.
pub(super) mod stored_length {
    use super::{Deserialize, Deserializer, Seconds, Serialize, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    pub(in super::super) fn serialize<S: Serializer>(
        length: &Option<Seconds<f32>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        (length.is_some(), length.unwrap_or_default()).serialize(serializer)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Seconds<f32>>, D::Error> {
        let (exists, length) = <(bool, Seconds<f32>)>::deserialize(deserializer)?;
        Ok(exists.then_some(length))
    }
}
