//! Names of announcements, and how they stand in file names, keys and nodes.

use crate::CoordinatorError;

/// Every byte may become three; the longest file name has 255.
const NAME_BYTES_MAX: usize = 80;

/// Refuses what cannot be announced, or be the id of a cluster.
pub(crate) fn check(what: &str, name: &str) -> Result<(), CoordinatorError> {
    let good = (1..=NAME_BYTES_MAX).contains(&name.len())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte));
    if good {
        return Ok(());
    }
    Err(CoordinatorError::Settings(format!(
        "{what} {name:?} cannot be used with a coordinator: take 1 to {NAME_BYTES_MAX} letters, digits and -_./:"
    )))
}

/// The name without slashes, and without anything that a file name or a node's name may not be.
pub(crate) fn escape(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) {
            escaped.push(byte.into());
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// What was escaped; `None` if this is not what [`escape`] makes.
pub(crate) fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(first) = rest.chars().next() {
        if first == '%' {
            let byte = u8::from_str_radix(rest.get(1..3)?, 16).ok()?;
            name.push(byte.into());
            rest = &rest[3..];
        } else {
            name.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    (escape(&name) == escaped).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaping_is_one_to_one_and_leaves_no_path() {
        for name in ["meta/0/2", "..", ".", "a%2Fb", "127.0.0.1:80", "a", "%"] {
            let escaped = escape(name);
            assert!(
                !escaped.contains('/') && !escaped.contains('.'),
                "{escaped}"
            );
            assert_eq!(unescape(&escaped).as_deref(), Some(name));
        }
        for foreign in ["%", "%2", "%zz", "%2f", "a/b", "%41", "a.b", "%é"] {
            assert_eq!(unescape(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn names_that_do_not_fit_are_refused_with_what_does() {
        check("the name", "meta/0/2").unwrap();
        for bad in ["", "a b", "ä", "a\0", &"x".repeat(81)] {
            let error = check("the name", bad).unwrap_err().to_string();
            assert!(error.contains("letters"), "{error}");
        }
    }
}
