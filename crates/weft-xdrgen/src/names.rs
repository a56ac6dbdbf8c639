//! What the names of a module stand for.

use super::lex::Wrong;
use super::parse::{Base, Declaration, Definition, Shape, Value, What};
use std::collections::BTreeMap;

/// A declaration with every name looked up that does not become a type of Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    Void,
    Int,
    Uint,
    Hyper,
    Uhyper,
    Bool,
    /// Opaque bytes, always so many.
    Fixed(u32),
    /// Opaque bytes, at most so many.
    Bytes(u32),
    /// A struct, an enum or a union.
    Named(String),
    Array(Box<Wire>, u32),
    Vec(Box<Wire>, u32),
    Option(Box<Wire>),
    /// Structs, each of which says whether another follows.
    List(String),
}

/// The definitions of a module, in their order, and those that it uses.
#[derive(Default)]
pub struct Names {
    own: Vec<String>,
    definitions: BTreeMap<String, Definition>,
    values: BTreeMap<String, i128>,
    imported_from: BTreeMap<String, &'static str>,
}

/// More than any protocol nests; who passes it has a type that holds itself.
const NESTING_MAX: usize = 64;

impl Names {
    /// Makes another module's definitions known.
    pub fn import(&mut self, module: &'static str, its: &Names) {
        for name in &its.own {
            self.imported_from.insert(name.clone(), module);
        }
        for (name, definition) in &its.definitions {
            self.definitions.insert(name.clone(), definition.clone());
        }
        self.values.extend(
            its.values
                .iter()
                .map(|(name, value)| (name.clone(), *value)),
        );
    }

    /// Takes in the definitions of one file. What is an enum or a union already gets more members.
    ///
    /// # Errors
    /// A name that is defined twice otherwise, or a value that nothing defines.
    pub fn add(&mut self, definitions: Vec<Definition>) -> Result<(), Wrong> {
        for definition in definitions {
            let line = definition.line;
            self.add_one(definition)
                .map_err(|what| Wrong { line, what })?;
        }
        Ok(())
    }

    fn add_one(&mut self, definition: Definition) -> Result<(), String> {
        match &definition.what {
            What::Const(value) => {
                let value = self.number(value)?;
                self.values.insert(definition.name.clone(), value);
            }
            What::Enum(members) => {
                for (name, value) in members {
                    let value = self.number(value)?;
                    if self.values.insert(name.clone(), value).is_some() {
                        return Err(format!("{name} has a value already"));
                    }
                }
            }
            _ => {}
        }
        let name = definition.name.clone();
        let Some(there) = self.definitions.get_mut(&name) else {
            self.own.push(name.clone());
            self.definitions.insert(name, definition);
            return Ok(());
        };
        match (&mut there.what, definition.what) {
            (What::Enum(members), What::Enum(more)) => members.extend(more),
            (What::Union { arms, .. }, What::Union { arms: more, .. }) => arms.extend(more),
            _ => return Err(format!("{name} is defined twice")),
        }
        Ok(())
    }

    /// The module's own definitions, in the order in which they were written.
    pub fn own(&self) -> impl Iterator<Item = &Definition> {
        self.own.iter().map(|name| &self.definitions[name])
    }

    /// Modules that have to be named, and what of them is used.
    pub fn imported(&self, name: &str) -> Option<&'static str> {
        self.imported_from.get(name).copied()
    }

    /// The definition of a name.
    pub fn get(&self, name: &str) -> Result<&Definition, String> {
        self.definitions
            .get(name)
            .ok_or_else(|| format!("nothing defines {name}"))
    }

    /// A value's number.
    pub fn number(&self, value: &Value) -> Result<i128, String> {
        match value {
            Value::Number(number) => Ok(*number),
            Value::Name(name) => match name.as_str() {
                "TRUE" => Ok(1),
                "FALSE" => Ok(0),
                _ => self
                    .values
                    .get(name)
                    .copied()
                    .ok_or_else(|| format!("nothing defines the value {name}")),
            },
        }
    }

    fn length(&self, value: &Value) -> Result<u32, String> {
        let number = self.number(value)?;
        u32::try_from(number).map_err(|_| format!("{number} is no length"))
    }

    /// What a declaration is on the wire.
    ///
    /// # Errors
    /// A name that nothing defines.
    pub fn wire(&self, declared: &Declaration) -> Result<Wire, String> {
        let bound = |bound: &Option<Value>| match bound {
            Some(value) => self.length(value),
            None => Ok(u32::MAX),
        };
        let item = match (&declared.base, &declared.shape) {
            (Base::Opaque | Base::String, Shape::Fixed(length)) => {
                return Ok(Wire::Fixed(self.length(length)?));
            }
            (Base::Opaque | Base::String, Shape::Variable(most)) => {
                return Ok(Wire::Bytes(bound(most)?));
            }
            (Base::Opaque | Base::String, _) => {
                return Err(format!("{} has no length", declared.name));
            }
            (Base::Void, _) => Wire::Void,
            (Base::Int, _) => Wire::Int,
            (Base::Uint, _) => Wire::Uint,
            (Base::Hyper, _) => Wire::Hyper,
            (Base::Uhyper, _) => Wire::Uhyper,
            (Base::Bool, _) => Wire::Bool,
            (Base::Named(name), _) => match &self.get(name)?.what {
                What::Typedef(inner) => self.wire(inner)?,
                What::Union { .. } => match self.optional(name)? {
                    Some(holds) => Wire::Option(Box::new(holds)),
                    None => Wire::Named(name.clone()),
                },
                What::Struct(_) | What::Enum(_) => Wire::Named(name.clone()),
                What::Const(_) | What::Program { .. } => return Err(format!("{name} is no type")),
            },
        };
        Ok(match &declared.shape {
            Shape::One => item,
            Shape::Fixed(length) => Wire::Array(Box::new(item), self.length(length)?),
            Shape::Variable(most) => Wire::Vec(Box::new(item), bound(most)?),
            Shape::Optional => match item {
                Wire::Named(name) if self.is_list_of(&name)? => Wire::List(name),
                item => Wire::Option(Box::new(item)),
            },
        })
    }

    /// What a union holds that says by a bool whether it holds something.
    pub fn optional(&self, name: &str) -> Result<Option<Wire>, String> {
        let What::Union { by, arms, default } = &self.get(name)?.what else {
            return Ok(None);
        };
        if by.base != Base::Bool {
            return Ok(None);
        }
        let (mut held, mut others) = (None, Vec::new());
        for arm in arms {
            match arm.cases.as_slice() {
                [case] if self.number(case)? == 1 => held = Some(self.wire(&arm.holds)?),
                _ => others.push(self.wire(&arm.holds)?),
            }
        }
        if let Some(default) = default {
            others.push(self.wire(default)?);
        }
        Ok(match (held, others.as_slice()) {
            (Some(held), [Wire::Void]) if held != Wire::Void => Some(held),
            _ => None,
        })
    }

    /// True for a struct whose last field is the optional next one.
    pub fn is_list_of(&self, name: &str) -> Result<bool, String> {
        let What::Struct(fields) = &self.get(name)?.what else {
            return Ok(false);
        };
        let Some(mut last) = fields.last() else {
            return Ok(false);
        };
        for _ in 0..NESTING_MAX {
            let Base::Named(of) = &last.base else {
                return Ok(false);
            };
            match (&last.shape, &self.get(of)?.what) {
                (Shape::Optional, _) => return Ok(of == name),
                (Shape::One, What::Typedef(inner)) => last = inner,
                _ => return Ok(false),
            }
        }
        Err(format!("{name} is defined by itself"))
    }

    /// The fields of a struct without what only says that another follows.
    pub fn fields(&self, name: &str) -> Result<&[Declaration], String> {
        let What::Struct(fields) = &self.get(name)?.what else {
            return Err(format!("{name} is no struct"));
        };
        Ok(match self.is_list_of(name)? {
            true => &fields[..fields.len() - 1],
            false => fields,
        })
    }

    /// Bytes of the shortest value, a multiple of four.
    ///
    /// # Errors
    /// A type that holds itself and is no list: decoding it would take as much stack as a sender likes.
    pub fn bytes_min(&self, wire: &Wire, depth: usize) -> Result<u64, String> {
        if depth > NESTING_MAX {
            return Err(format!("{wire:?} holds itself and is no list"));
        }
        let deeper = |wire: &Wire| self.bytes_min(wire, depth + 1);
        Ok(match wire {
            Wire::Void => 0,
            Wire::Int | Wire::Uint | Wire::Bool => 4,
            Wire::Hyper | Wire::Uhyper => 8,
            Wire::Fixed(length) => u64::from(*length).next_multiple_of(4),
            Wire::Bytes(_) => 4,
            Wire::Array(item, length) => deeper(item)? * u64::from(*length),
            // Looked into all the same, for types that hold themselves.
            Wire::Vec(item, _) | Wire::Option(item) => {
                deeper(item)?;
                4
            }
            Wire::List(name) => {
                deeper(&Wire::Named(name.clone()))?;
                4
            }
            Wire::Named(name) => match &self.get(name)?.what {
                What::Struct(_) => {
                    let mut sum = 0;
                    for field in self.fields(name)? {
                        sum += deeper(&self.wire(field)?)?;
                    }
                    sum
                }
                What::Union { arms, default, .. } => {
                    let mut least = u64::MAX;
                    for holds in arms.iter().map(|arm| &arm.holds).chain(default) {
                        least = least.min(deeper(&self.wire(holds)?)?);
                    }
                    4 + least
                }
                _ => 4,
            },
        })
    }
}
