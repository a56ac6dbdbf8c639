//! The definitions of an `.x` file (RFC 4506, section 6; RFC 5531, section 12, for programs).

use super::lex::{Word, Wrong, words};

/// A number, or the name of one.
#[derive(Clone, Debug)]
pub enum Value {
    Number(i128),
    Name(String),
}

/// What a declaration is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    Void,
    Int,
    Uint,
    Hyper,
    Uhyper,
    Bool,
    Opaque,
    String,
    Named(String),
}

/// How many of it.
#[derive(Clone, Debug)]
pub enum Shape {
    One,
    Fixed(Value),
    Variable(Option<Value>),
    Optional,
}

/// `base name`, in one of its shapes.
#[derive(Clone, Debug)]
pub struct Declaration {
    pub name: String,
    pub base: Base,
    pub shape: Shape,
}

/// `case A: case B: declaration`.
#[derive(Clone, Debug)]
pub struct Arm {
    pub cases: Vec<Value>,
    pub holds: Declaration,
}

/// A procedure of a program.
#[derive(Clone, Debug)]
pub struct Procedure {
    pub name: String,
    pub number: Value,
    pub arguments: Declaration,
    pub results: Declaration,
}

/// A version of a program.
#[derive(Clone, Debug)]
pub struct Version {
    pub name: String,
    pub number: Value,
    pub procedures: Vec<Procedure>,
}

/// What is defined.
#[derive(Clone, Debug)]
pub enum What {
    Const(Value),
    Typedef(Declaration),
    Enum(Vec<(String, Value)>),
    Struct(Vec<Declaration>),
    Union {
        by: Declaration,
        arms: Vec<Arm>,
        default: Option<Declaration>,
    },
    Program {
        number: Value,
        versions: Vec<Version>,
    },
}

/// A definition and where it stands.
#[derive(Clone, Debug)]
pub struct Definition {
    pub line: usize,
    pub name: String,
    pub what: What,
}

struct Parser {
    words: Vec<(usize, Word)>,
    at: usize,
    found: Vec<Definition>,
}

type Parsed<T> = Result<T, Wrong>;

/// All definitions of a file.
///
/// # Errors
/// The first place that is not as the grammar says.
pub fn definitions(text: &str) -> Parsed<Vec<Definition>> {
    let mut parser = Parser {
        words: words(text)?,
        at: 0,
        found: Vec::new(),
    };
    while parser.at < parser.words.len() {
        parser.definition()?;
    }
    Ok(parser.found)
}

impl Parser {
    fn line(&self) -> usize {
        let at = self.at.min(self.words.len().saturating_sub(1));
        self.words.get(at).map_or(0, |(line, _)| *line)
    }

    fn wrong<T>(&self, wanted: &str) -> Parsed<T> {
        let what = match self.words.get(self.at) {
            Some((_, word)) => format!("{wanted} was expected, not {word:?}"),
            None => format!("{wanted} was expected, not the end of the file"),
        };
        Err(Wrong {
            line: self.line(),
            what,
        })
    }

    fn is_sign(&self, sign: char) -> bool {
        matches!(self.words.get(self.at), Some((_, Word::Sign(there))) if *there == sign)
    }

    fn takes(&mut self, sign: char) -> bool {
        let is_there = self.is_sign(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn sign(&mut self, sign: char) -> Parsed<()> {
        match self.takes(sign) {
            true => Ok(()),
            false => self.wrong(&format!("{sign:?}")),
        }
    }

    fn peek(&self) -> Option<&str> {
        match self.words.get(self.at) {
            Some((_, Word::Name(name))) => Some(name),
            _ => None,
        }
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is_there = self.peek() == Some(word);
        self.at += usize::from(is_there);
        is_there
    }

    fn name(&mut self) -> Parsed<String> {
        match self.peek().map(str::to_owned) {
            Some(name) => {
                self.at += 1;
                Ok(name)
            }
            None => self.wrong("a name"),
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        if let Some((_, Word::Number(number))) = self.words.get(self.at) {
            self.at += 1;
            return Ok(Value::Number(*number));
        }
        Ok(Value::Name(self.name()?))
    }

    fn define(&mut self, line: usize, name: String, what: What) {
        self.found.push(Definition { line, name, what });
    }

    fn definition(&mut self) -> Parsed<()> {
        let line = self.line();
        match self.name()?.as_str() {
            "const" => {
                let name = self.name()?;
                self.sign('=')?;
                let value = self.value()?;
                self.define(line, name, What::Const(value));
            }
            "typedef" => {
                let declared = self.declaration("")?;
                self.define(line, declared.name.clone(), What::Typedef(declared));
            }
            "enum" => {
                let name = self.name()?;
                let members = self.members()?;
                self.define(line, name, What::Enum(members));
            }
            "struct" => {
                // RFC 1833 writes `struct *list { ...; list next; }`: wherever the name stands, a list is meant.
                let is_list = self.takes('*');
                let name = self.name()?;
                let entry = match is_list {
                    true => format!("{name}_entry"),
                    false => name.clone(),
                };
                let fields = self.fields(&entry)?;
                self.define(line, entry.clone(), What::Struct(fields));
                if is_list {
                    let list = Declaration {
                        name: name.clone(),
                        base: Base::Named(entry),
                        shape: Shape::Optional,
                    };
                    self.define(line, name, What::Typedef(list));
                }
            }
            "union" => {
                let name = self.name()?;
                let what = self.union(&name)?;
                // RFC 5531 puts a name behind one, which nothing uses.
                if self.peek().is_some() {
                    self.at += 1;
                }
                self.define(line, name, what);
            }
            "program" => {
                let name = self.name()?;
                let (number, versions) = self.program()?;
                self.define(line, name, What::Program { number, versions });
            }
            _ => {
                self.at -= 1;
                return self.wrong("a definition");
            }
        }
        self.sign(';')
    }

    fn members(&mut self) -> Parsed<Vec<(String, Value)>> {
        self.sign('{')?;
        let mut members = Vec::new();
        loop {
            let name = self.name()?;
            self.sign('=')?;
            members.push((name, self.value()?));
            if !self.takes(',') {
                self.sign('}')?;
                return Ok(members);
            }
        }
    }

    fn fields(&mut self, owner: &str) -> Parsed<Vec<Declaration>> {
        self.sign('{')?;
        let mut fields = Vec::new();
        while !self.takes('}') {
            fields.push(self.declaration(owner)?);
            self.sign(';')?;
        }
        match fields.is_empty() {
            true => self.wrong("a field"),
            false => Ok(fields),
        }
    }

    fn union(&mut self, owner: &str) -> Parsed<What> {
        if !self.takes_word("switch") {
            return self.wrong("\"switch\"");
        }
        self.sign('(')?;
        let by = self.declaration(owner)?;
        self.sign(')')?;
        self.sign('{')?;
        let (mut arms, mut default) = (Vec::new(), None);
        while !self.takes('}') {
            if self.takes_word("default") {
                self.sign(':')?;
                default = Some(self.declaration(owner)?);
            } else {
                let mut cases = Vec::new();
                while self.takes_word("case") {
                    cases.push(self.value()?);
                    self.sign(':')?;
                }
                if cases.is_empty() {
                    return self.wrong("\"case\"");
                }
                let holds = self.declaration(owner)?;
                arms.push(Arm { cases, holds });
            }
            self.sign(';')?;
        }
        Ok(What::Union { by, arms, default })
    }

    /// A type and what it is called. A struct or a union without a name gets one from its owner and its field.
    fn declaration(&mut self, owner: &str) -> Parsed<Declaration> {
        let line = self.line();
        let base = match self.name()?.as_str() {
            "void" => {
                return Ok(Declaration {
                    name: String::new(),
                    base: Base::Void,
                    shape: Shape::One,
                });
            }
            "unsigned" => {
                let _is_said = self.takes_word("int") || self.takes_word("long");
                match self.takes_word("hyper") {
                    true => Base::Uhyper,
                    false => Base::Uint,
                }
            }
            "int" | "long" | "int32_t" => Base::Int,
            "uint32_t" => Base::Uint,
            "hyper" | "int64_t" => Base::Hyper,
            "uint64_t" => Base::Uhyper,
            "bool" => Base::Bool,
            "opaque" => Base::Opaque,
            "string" => Base::String,
            "struct" | "union" | "enum" if self.is_sign('{') || self.peek() == Some("switch") => {
                let what = match self.is_sign('{') {
                    true => What::Struct(self.fields(owner)?),
                    false => self.union(owner)?,
                };
                let name = self.name()?;
                let whole = format!("{owner}_{name}");
                self.define(line, whole.clone(), what);
                return Ok(Declaration {
                    name,
                    base: Base::Named(whole),
                    shape: Shape::One,
                });
            }
            "struct" | "union" | "enum" => Base::Named(self.name()?),
            "float" | "double" | "quadruple" => return self.wrong("no floating point number"),
            name => Base::Named(name.to_owned()),
        };
        if self.takes('*') {
            let name = self.name()?;
            return Ok(Declaration {
                name,
                base,
                shape: Shape::Optional,
            });
        }
        let name = self.name()?;
        let shape = if self.takes('[') {
            let length = self.value()?;
            self.sign(']')?;
            Shape::Fixed(length)
        } else if self.takes('<') {
            let bound = match self.is_sign('>') {
                true => None,
                false => Some(self.value()?),
            };
            self.sign('>')?;
            Shape::Variable(bound)
        } else {
            Shape::One
        };
        match (&base, &shape) {
            (Base::Opaque | Base::String, Shape::One) => self.wrong("a length"),
            _ => Ok(Declaration { name, base, shape }),
        }
    }

    fn program(&mut self) -> Parsed<(Value, Vec<Version>)> {
        self.sign('{')?;
        let mut versions = Vec::new();
        while self.takes_word("version") {
            let name = self.name()?;
            self.sign('{')?;
            let mut procedures = Vec::new();
            while !self.takes('}') {
                let results = self.bare()?;
                let name = self.name()?;
                self.sign('(')?;
                let arguments = self.bare()?;
                self.sign(')')?;
                self.sign('=')?;
                let number = self.value()?;
                self.sign(';')?;
                procedures.push(Procedure {
                    name,
                    number,
                    arguments,
                    results,
                });
            }
            self.sign('=')?;
            let number = self.value()?;
            self.sign(';')?;
            versions.push(Version {
                name,
                number,
                procedures,
            });
        }
        self.sign('}')?;
        self.sign('=')?;
        Ok((self.value()?, versions))
    }

    /// A type without a name, as procedures have them.
    fn bare(&mut self) -> Parsed<Declaration> {
        let base = match self.name()?.as_str() {
            "void" => Base::Void,
            "bool" => Base::Bool,
            "int" => Base::Int,
            "unsigned" => {
                let _is_said = self.takes_word("int");
                Base::Uint
            }
            name => Base::Named(name.to_owned()),
        };
        Ok(Declaration {
            name: String::new(),
            base,
            shape: Shape::One,
        })
    }
}
