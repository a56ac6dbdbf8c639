//! The words of an `.x` file.

/// A line and what is wrong there.
#[derive(Debug)]
pub struct Wrong {
    pub line: usize,
    pub what: String,
}

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    Name(String),
    Number(i128),
    Sign(char),
}

/// Words with their lines. Comments, lines for the C compiler (`%`) and for its preprocessor (`#`) are left out.
///
/// # Errors
/// A character that begins no word, a number that is none, a comment without an end.
pub fn words(text: &str) -> Result<Vec<(usize, Word)>, Wrong> {
    let mut found = Vec::new();
    let mut is_comment = false;
    let mut line = 0;
    for content in text.lines() {
        line += 1;
        let mut rest = content;
        if !is_comment && rest.starts_with(['%', '#']) {
            continue;
        }
        loop {
            if is_comment {
                let Some(end) = rest.find("*/") else { break };
                rest = &rest[end + 2..];
                is_comment = false;
            }
            rest = rest.trim_start();
            let Some(first) = rest.chars().next() else {
                break;
            };
            if rest.starts_with("/*") {
                is_comment = true;
                rest = &rest[2..];
                continue;
            }
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            let length = match first {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => {
                    rest.find(|c| !is_word(c)).unwrap_or(rest.len())
                }
                '{' | '}' | '(' | ')' | '[' | ']' | '<' | '>' | ';' | ',' | '=' | '*' | ':' => 1,
                other => {
                    let what = format!("{other:?} begins no word");
                    return Err(Wrong { line, what });
                }
            };
            let (word, after) = rest.split_at(length);
            rest = after;
            let word = match first {
                'a'..='z' | 'A'..='Z' => Word::Name(word.to_owned()),
                '0'..='9' | '-' => Word::Number(number(word).ok_or_else(|| Wrong {
                    line,
                    what: format!("{word:?} is no number"),
                })?),
                sign => Word::Sign(sign),
            };
            found.push((line, word));
        }
    }
    match is_comment {
        true => Err(Wrong {
            line,
            what: "a comment has no end".into(),
        }),
        false => Ok(found),
    }
}

fn number(word: &str) -> Option<i128> {
    let (sign, digits) = match word.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, word),
    };
    let value = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(hexadecimal) => i128::from_str_radix(hexadecimal, 16),
        None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(digits, 8),
        None => digits.parse(),
    };
    Some(sign * value.ok()?)
}
