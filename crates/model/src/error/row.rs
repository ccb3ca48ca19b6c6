//! The rows of the error catalog, and the macro that makes an enum of a list of rows.

use super::code::Code;

/// Which layer of the service finds an error (semantics 0.2).
///
/// The index prefix of a batch with one operation depends on it, and so do some response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    FrontEnd,
    BackEnd,
}

/// The constant part of one error.
#[derive(Debug)]
pub(super) struct Row {
    #[cfg(test)]
    pub(super) name: &'static str,
    pub(super) code: Code,
    /// Five characters; `None` for an error that no SQL function raises.
    pub(super) sqlstate: Option<&'static str>,
    pub(super) stage: Stage,
    /// The message, with the names of the error's fields in braces.
    pub(super) template: &'static str,
}

impl Row {
    /// Returns whether the message of an error of this row can be `message`.
    pub(super) fn can_say(&self, message: &str) -> bool {
        match (self.template.split_once('{'), self.template.rsplit_once('}')) {
            (Some((prefix, _)), Some((_, suffix))) => {
                message.strip_prefix(prefix).is_some_and(|rest| rest.ends_with(suffix))
            }
            _ => message == self.template,
        }
    }
}

/// Makes an enum of errors, one row an error:
///
/// ```text
/// /// What the variant means.
/// Name { field: Type }: Code "22023" FrontEnd
///     "The service's message, which may quote a {field}."
///     hint "What the message does not say of the {field}.";
/// ```
///
/// The fields and the hint may be missing. The SQLSTATE is missing in an enum whose errors no SQL function raises.
/// After the rows, `containing` lists variants that hold another error, and `passing` names that error: such a variant
/// has the code, SQLSTATE, stage and hint of the error that it holds.
macro_rules! catalog {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $(
                $(#[$doc:meta])*
                $variant:ident $({ $($field:ident: $type:ty),* })?: $code:ident $($sqlstate:literal)? $stage:ident
                    $message:literal
                    $(hint $hint:literal)?;
            )*
        }
        $(
            containing { $($containing:tt)* }
            passing { $($pattern:pat => $inner:ident,)* }
        )?
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum $name {
            $(
                $(#[$doc])*
                #[error($message)]
                $variant $({ $($field: $type),* })?,
            )*
            $($($containing)*)?
        }

        impl $name {
            /// The rows of this enum, in order.
            pub(super) const ROWS: &[$crate::error::row::Row] = &[
                $(
                    $crate::error::row::Row {
                        #[cfg(test)]
                        name: stringify!($variant),
                        code: $crate::error::Code::$code,
                        sqlstate: $crate::error::row::optional!($($sqlstate)?),
                        stage: $crate::error::Stage::$stage,
                        template: $message,
                    },
                )*
            ];

            /// Returns the Azure code.
            pub fn code(&self) -> $crate::error::Code {
                match self {
                    $($name::$variant { .. } => $crate::error::Code::$code,)*
                    $($($pattern => $inner.code(),)*)?
                }
            }

            /// Returns which layer of the service finds it (semantics 0.2).
            pub fn stage(&self) -> $crate::error::Stage {
                match self {
                    $($name::$variant { .. } => $crate::error::Stage::$stage,)*
                    $($($pattern => $inner.stage(),)*)?
                }
            }

            /// Returns the SQLSTATE, five characters; `None` for an error that no SQL function raises.
            pub(super) fn own_sqlstate(&self) -> Option<&'static str> {
                match self {
                    $($name::$variant { .. } => $crate::error::row::optional!($($sqlstate)?),)*
                    $($($pattern => $inner.own_sqlstate(),)*)?
                }
            }

            /// Returns facts that the service's message lacks: the property, the reason, or a way out.
            #[allow(unused_variables, reason = "most hints do without some of the fields")]
            pub fn hint(&self) -> Option<String> {
                match self {
                    $(
                        $name::$variant $({ $($field),* })? =>
                            $crate::error::row::optional!($(format!($hint))?),
                    )*
                    $($($pattern => $inner.hint(),)*)?
                }
            }

            /// One error of every row, in the order of the rows, with fields that hold `text` where they can.
            #[cfg(test)]
            pub(crate) fn samples(text: &str) -> Vec<$name> {
                vec![
                    $(
                        $name::$variant $({
                            $($field: $crate::error::row::sample::Sample::sample(text)),*
                        })?,
                    )*
                ]
            }
        }
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($value:expr) => {
        Some($value)
    };
}

pub(super) use {catalog, optional};

#[cfg(test)]
pub(super) mod sample {
    use std::net::{IpAddr, Ipv4Addr};

    /// A value for a field of an error.
    pub trait Sample {
        fn sample(text: &str) -> Self;
    }

    impl Sample for String {
        fn sample(text: &str) -> String {
            text.to_owned()
        }
    }

    impl Sample for &'static str {
        fn sample(_: &str) -> &'static str {
            "RowKey"
        }
    }

    impl Sample for char {
        fn sample(text: &str) -> char {
            text.chars().next().unwrap_or('~')
        }
    }

    impl Sample for usize {
        fn sample(_: &str) -> usize {
            17
        }
    }

    impl Sample for IpAddr {
        fn sample(_: &str) -> IpAddr {
            IpAddr::V4(Ipv4Addr::LOCALHOST)
        }
    }
}
