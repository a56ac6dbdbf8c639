//! Rust for a module's definitions.
//!
//! Names stay as the RFC has them. What a decoder returns owns nothing but slices of the record.

use super::names::{Names, Wire};
use super::parse::{Arm, Base, Declaration, Definition, Shape, What};
use std::collections::BTreeSet;
use std::fmt::Write;

type Written = Result<String, String>;

/// Words that the RFCs use as names and Rust does not allow as such.
const KEYWORDS: &[&str] = &[
    "type", "where", "ref", "in", "match", "move", "use", "loop", "fn", "mod", "pub", "let", "do",
];

fn field_name(name: &str) -> String {
    match KEYWORDS.contains(&name) {
        true => format!("r#{name}"),
        false => name.to_owned(),
    }
}

/// The text of a module, not laid out.
///
/// # Errors
/// A name that nothing defines, a type that holds itself.
pub fn module(about: &str, files: &[&str], names: &Names) -> Written {
    let mut body = String::new();
    let mut procedures = Vec::new();
    for definition in names.own() {
        let written = match &definition.what {
            What::Const(value) => constant(&definition.name, names.number(value)?),
            What::Typedef(declared) => alias(&definition.name, declared, names),
            What::Enum(members) => enumeration(
                &definition.name,
                members
                    .iter()
                    .map(|(name, value)| Ok((name.as_str(), names.number(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            What::Struct(_) => structure(definition, names),
            What::Union { by, arms, default } => match names.optional(&definition.name)? {
                Some(holds) => Ok(format!(
                    "/// `{}`: there or not.\npub type {} = Option<{}>;\n",
                    by.name,
                    definition.name,
                    held_type(&holds, one_named(arms), names)?
                )),
                None => union(&definition.name, by, arms, default.as_ref(), names),
            },
            What::Program { .. } => program(definition, names, &mut procedures),
        };
        body += &written.map_err(|why| format!("{}: {why}", definition.name))?;
        body.push('\n');
    }
    body += &visit(&procedures);
    let mut text = format!(
        "//! {about}.\n//!\n//! Written by `cargo xtask xdr` from {}: change these, not this.\n\n\
         #![allow(non_camel_case_types, missing_docs)]\n\n",
        files
            .iter()
            .map(|file| format!("`x/{file}`"))
            .collect::<Vec<_>>()
            .join(" and ")
    );
    text += &uses(&body, names, !procedures.is_empty());
    text += &body;
    Ok(text)
}

/// Only what the text names.
fn uses(body: &str, names: &Names, has_procedures: bool) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = body.split(|c| !is_part(c)).collect();
    let mut text = String::new();
    if words.contains("Bytes") {
        text += "use bytes::Bytes;\n";
    }
    let mut own = vec![];
    for name in ["DecodeError", "Decoder", "Encoder", "Xdr"] {
        if words.contains(name) {
            own.push(name);
        }
    }
    if has_procedures {
        own.extend(["Procedure", "Visitor"]);
    }
    own.sort_unstable();
    if !own.is_empty() {
        let _ = writeln!(text, "use crate::{{{}}};", own.join(", "));
    }
    for word in words {
        if let Some(module) = names.imported(word) {
            let _ = writeln!(text, "use super::{module}::{word};");
        }
    }
    text.push('\n');
    text
}

fn constant(name: &str, value: i128) -> Written {
    let kind = match value {
        0..=0xffff_ffff => "u32",
        0x1_0000_0000..=0xffff_ffff_ffff_ffff => "u64",
        -0x8000_0000..=-1 => "i32",
        _ => return Err(format!("{value} has more than 64 bits")),
    };
    let value = match value {
        // Masks and limits read better as they are written.
        1_000_000.. => format!("{value:#x}"),
        _ => value.to_string(),
    };
    Ok(format!("pub const {name}: {kind} = {value};\n"))
}

fn alias(name: &str, declared: &Declaration, names: &Names) -> Written {
    let bound = match names.wire(declared)? {
        Wire::Bytes(bound) if bound < u32::MAX => format!("/// At most {bound} bytes.\n"),
        Wire::Vec(_, bound) if bound < u32::MAX => format!("/// At most {bound}.\n"),
        _ => String::new(),
    };
    Ok(format!(
        "{bound}pub type {name} = {};\n",
        declared_type(declared, names)?
    ))
}

fn one_named(arms: &[Arm]) -> Option<&Declaration> {
    arms.iter()
        .map(|arm| &arm.holds)
        .find(|holds| holds.base != Base::Void)
}

/// The type as it was declared, if that says more than what it is.
fn held_type(wire: &Wire, declared: Option<&Declaration>, names: &Names) -> Written {
    match declared {
        Some(declared) => declared_type(declared, names),
        None => rust_type(wire),
    }
}

fn declared_type(declared: &Declaration, names: &Names) -> Written {
    let wire = names.wire(declared)?;
    let Base::Named(name) = &declared.base else {
        return rust_type(&wire);
    };
    Ok(match (&declared.shape, &wire) {
        (Shape::One, _) => name.clone(),
        (Shape::Fixed(_), Wire::Array(_, length)) => format!("[{name}; {length}]"),
        (Shape::Variable(_), _) => format!("Vec<{name}>"),
        (Shape::Optional, Wire::Option(_)) => format!("Option<{name}>"),
        _ => return rust_type(&wire),
    })
}

fn rust_type(wire: &Wire) -> Written {
    Ok(match wire {
        Wire::Void => "()".into(),
        Wire::Int => "i32".into(),
        Wire::Uint => "u32".into(),
        Wire::Hyper => "i64".into(),
        Wire::Uhyper => "u64".into(),
        Wire::Bool => "bool".into(),
        Wire::Fixed(length) => format!("[u8; {length}]"),
        Wire::Bytes(_) => "Bytes".into(),
        Wire::Named(name) => name.clone(),
        Wire::Array(item, length) => format!("[{}; {length}]", rust_type(item)?),
        Wire::Vec(item, _) => format!("Vec<{}>", rust_type(item)?),
        Wire::Option(item) => format!("Option<{}>", rust_type(item)?),
        Wire::List(name) => format!("Vec<{name}>"),
    })
}

fn bound(most: u32) -> String {
    match most {
        u32::MAX => "u32::MAX".into(),
        most => most.to_string(),
    }
}

/// An expression for the value, with `?` where decoding can fail.
fn decode(wire: &Wire, names: &Names) -> Written {
    Ok(match wire {
        Wire::Void => "()".into(),
        _ => format!("{}?", decoding(wire, names)?),
    })
}

/// An expression for the result of decoding.
fn decoding(wire: &Wire, names: &Names) -> Written {
    Ok(match wire {
        Wire::Void => "Ok(())".into(),
        Wire::Int => "input.i32()".into(),
        Wire::Uint => "input.u32()".into(),
        Wire::Hyper => "input.i64()".into(),
        Wire::Uhyper => "input.u64()".into(),
        Wire::Bool => "input.bool()".into(),
        Wire::Fixed(length) => format!("input.fixed::<{length}>()"),
        Wire::Bytes(most) => format!("input.opaque({})", bound(*most)),
        Wire::Named(name) => format!("{name}::decode(input)"),
        Wire::Array(item, length) => {
            format!("input.array::<_, {length}>({})", decoder(item, names)?)
        }
        Wire::Vec(item, most) => format!(
            "input.vec({}, {}, {})",
            bound(*most),
            names.bytes_min(item, 0)?,
            decoder(item, names)?
        ),
        Wire::Option(item) => format!("input.option({})", decoder(item, names)?),
        Wire::List(name) => format!("input.list({name}::decode)"),
    })
}

/// A function that decodes: by its name where it has one.
fn decoder(wire: &Wire, names: &Names) -> Written {
    Ok(match wire {
        Wire::Int => "Decoder::i32".into(),
        Wire::Uint => "Decoder::u32".into(),
        Wire::Hyper => "Decoder::i64".into(),
        Wire::Uhyper => "Decoder::u64".into(),
        Wire::Bool => "Decoder::bool".into(),
        Wire::Fixed(length) => format!("Decoder::fixed::<{length}>"),
        Wire::Named(name) => format!("{name}::decode"),
        _ => format!("|input| {}", decoding(wire, names)?),
    })
}

/// A statement that encodes what `place` is (`is_reference`: refers to).
fn encode(wire: &Wire, place: &str, is_reference: bool) -> Written {
    let value = match is_reference {
        true => format!("*{place}"),
        false => place.to_owned(),
    };
    let reference = match is_reference {
        true => place.to_owned(),
        false => format!("&{place}"),
    };
    let each = |item: &Wire| -> Written {
        Ok(format!("|out, item| {{ {} }}", encode(item, "item", true)?))
    };
    Ok(match wire {
        Wire::Void => String::new(),
        Wire::Int => format!("out.i32({value});"),
        Wire::Uint => format!("out.u32({value});"),
        Wire::Hyper => format!("out.i64({value});"),
        Wire::Uhyper => format!("out.u64({value});"),
        Wire::Bool => format!("out.bool({value});"),
        Wire::Fixed(_) => format!("out.fixed({reference});"),
        Wire::Bytes(most) => format!("out.opaque({}, {reference});", bound(*most)),
        Wire::Named(_) => format!("{place}.encode(out);"),
        Wire::Array(item, _) => format!("out.array({reference}, {});", each(item)?),
        Wire::Vec(item, most) => {
            format!("out.vec({}, {reference}, {});", bound(*most), each(item)?)
        }
        Wire::Option(item) => {
            format!("out.option({reference}.as_ref(), {});", each(item)?).replace("&self", "self")
        }
        Wire::List(_) => format!("out.list({reference});"),
    })
}

fn enumeration(name: &str, members: Vec<(&str, i128)>) -> Written {
    let mut text = format!(
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]\n#[repr(i32)]\npub enum {name} {{\n"
    );
    for (member, value) in &members {
        let _ = writeln!(text, "{member} = {value},");
    }
    let _ = write!(
        text,
        "}}\n\nimpl {name} {{\n/// The member with this value on the wire.\npub const fn from_wire(value: i32) -> Option<{name}> {{\nSome(match value {{\n"
    );
    for (member, value) in &members {
        let _ = writeln!(text, "{value} => {name}::{member},");
    }
    let _ = write!(
        text,
        "_ => return None,\n}})\n}}\n}}\n\nimpl Xdr for {name} {{\n\
         fn encode(&self, out: &mut Encoder) {{ out.i32(*self as i32); }}\n\n\
         fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {{\n\
         let value = input.i32()?;\n\
         {name}::from_wire(value).ok_or(DecodeError::Member {{ of: \"{name}\", value }})\n}}\n}}\n"
    );
    Ok(text)
}

fn structure(definition: &Definition, names: &Names) -> Written {
    let name = &definition.name;
    let fields = names.fields(name)?;
    names.bytes_min(&Wire::Named(name.clone()), 0)?;
    let mut text = String::new();
    if names.is_list_of(name)? {
        text += "/// One of a list: whether another follows is written between them.\n";
    }
    let _ = writeln!(
        text,
        "#[derive(Clone, Debug, PartialEq, Eq)]\npub struct {name} {{"
    );
    let (mut encoded, mut decoded) = (String::new(), String::new());
    for field in fields {
        let wire = names.wire(field)?;
        let field_name = field_name(&field.name);
        let kind = declared_type(field, names)?;
        match (&field.base, &wire) {
            (Base::Opaque | Base::String, Wire::Bytes(most)) if *most < u32::MAX => {
                let _ = writeln!(text, "/// At most {most} bytes.");
            }
            (_, Wire::Vec(_, most)) if *most < u32::MAX => {
                let _ = writeln!(text, "/// At most {most}.");
            }
            _ => {}
        }
        let _ = writeln!(text, "pub {field_name}: {kind},");
        let _ = writeln!(
            encoded,
            "{}",
            encode(&wire, &format!("self.{field_name}"), false)?
        );
        let _ = writeln!(decoded, "{field_name}: {},", decode(&wire, names)?);
    }
    let _ = write!(
        text,
        "}}\n\nimpl Xdr for {name} {{\nfn encode(&self, out: &mut Encoder) {{\n{encoded}}}\n\n\
         fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {{\nOk({name} {{\n{decoded}}})\n}}\n}}\n"
    );
    Ok(text)
}

/// What a union is switched by.
struct Switch {
    kind: String,
    is_enum: bool,
    wire: Wire,
}

impl Switch {
    /// How a case is matched, and what its variant is called.
    fn case(&self, case: &super::parse::Value, names: &Names) -> Result<(String, String), String> {
        use super::parse::Value;
        let number = names.number(case)?;
        Ok(match case {
            Value::Name(name) if self.is_enum => (format!("{}::{name}", self.kind), name.clone()),
            Value::Name(name) if self.wire == Wire::Bool => {
                ((number == 1).to_string(), name.clone())
            }
            Value::Name(name) => (number.to_string(), name.clone()),
            Value::Number(number) => (number.to_string(), format!("case_{number}")),
        })
    }
}

fn union(
    name: &str,
    by: &Declaration,
    arms: &[Arm],
    default: Option<&Declaration>,
    names: &Names,
) -> Written {
    let wire = names.wire(by)?;
    let is_enum = match &wire {
        Wire::Named(of) if matches!(names.get(of)?.what, What::Enum(_)) => true,
        Wire::Int | Wire::Uint | Wire::Bool => false,
        _ => return Err(format!("{} is nothing to switch by", by.name)),
    };
    names.bytes_min(&Wire::Named(name.to_owned()), 0)?;
    let switch = Switch {
        kind: match &wire {
            // The enum itself, whatever it was called here.
            Wire::Named(of) => of.clone(),
            other => rust_type(other)?,
        },
        is_enum,
        wire: wire.clone(),
    };
    let (mut variants, mut encoded, mut decoded, mut switched) =
        (String::new(), String::new(), String::new(), String::new());
    let mut known = BTreeSet::new();
    for arm in arms {
        let holds = names.wire(&arm.holds)?;
        for case in &arm.cases {
            known.insert(names.number(case)?);
            let (value, variant) = switch.case(case, names)?;
            if holds == Wire::Void {
                let _ = writeln!(variants, "{variant},");
                let _ = writeln!(encoded, "{name}::{variant} => {{}}");
                let _ = writeln!(decoded, "{value} => {name}::{variant},");
                let _ = writeln!(switched, "{name}::{variant} => {value},");
                continue;
            }
            let kind = declared_type(&arm.holds, names)?;
            let _ = writeln!(variants, "{variant}({kind}),");
            let _ = writeln!(
                encoded,
                "{name}::{variant}(it) => {{ {} }}",
                encode(&holds, "it", true)?
            );
            let _ = writeln!(
                decoded,
                "{value} => {name}::{variant}({}),",
                decode(&holds, names)?
            );
            let _ = writeln!(switched, "{name}::{variant}(_) => {value},");
        }
    }
    let all_known = match &wire {
        Wire::Bool => known.len() == 2,
        Wire::Named(of) => match &names.get(of)?.what {
            What::Enum(members) => members.len() == known.len(),
            _ => false,
        },
        _ => false,
    };
    let kind = &switch.kind;
    match default {
        Some(_) if all_known => {}
        Some(default) => {
            let holds = names.wire(default)?;
            if holds == Wire::Void {
                let _ = writeln!(variants, "/// Any other.\ndefault({kind}),");
                let _ = writeln!(encoded, "{name}::default(_) => {{}}");
                let _ = writeln!(decoded, "other => {name}::default(other),");
                let _ = writeln!(switched, "{name}::default(other) => *other,");
            } else {
                let _ = writeln!(
                    variants,
                    "/// Any other.\ndefault({kind}, {}),",
                    declared_type(default, names)?
                );
                let _ = writeln!(
                    encoded,
                    "{name}::default(_, it) => {{ {} }}",
                    encode(&holds, "it", true)?
                );
                let _ = writeln!(
                    decoded,
                    "other => {name}::default(other, {}),",
                    decode(&holds, names)?
                );
                let _ = writeln!(switched, "{name}::default(other, _) => *other,");
            }
        }
        None if all_known => {}
        None => {
            let _ = writeln!(
                decoded,
                "other => return Err(DecodeError::Arm {{ of: \"{name}\", value: other as i32 }}),"
            );
        }
    }
    let by_name = field_name(&by.name);
    let mut text = format!(
        "#[derive(Clone, Debug, PartialEq, Eq)]\npub enum {name} {{\n{variants}}}\n\n\
         impl {name} {{\n/// Which of them it is.\npub fn {by_name}(&self) -> {kind} {{\nmatch self {{\n{switched}}}\n}}\n}}\n\n"
    );
    let _ = write!(
        text,
        "impl Xdr for {name} {{\nfn encode(&self, out: &mut Encoder) {{\n{}\nmatch self {{\n{encoded}}}\n}}\n\n\
         fn decode(input: &mut Decoder) -> Result<Self, DecodeError> {{\nOk(match {} {{\n{decoded}}})\n}}\n}}\n",
        encode(&wire, &format!("self.{by_name}()"), false)?,
        decode(&wire, names)?,
    );
    Ok(text)
}

/// A procedure: its name, its version's number and its own.
type Numbered = (String, u32, u32);

fn program(definition: &Definition, names: &Names, procedures: &mut Vec<Numbered>) -> Written {
    let What::Program { number, versions } = &definition.what else {
        return Err("is no program".into());
    };
    let small = |number: i128| u32::try_from(number).map_err(|_| format!("{number} is no number"));
    let mut text = constant(&definition.name, names.number(number)?)?;
    for version in versions {
        text += &constant(&version.name, names.number(&version.number)?)?;
        for procedure in &version.procedures {
            let name = &procedure.name;
            let number = small(names.number(&procedure.number)?)?;
            let arguments = names.wire(&procedure.arguments)?;
            let results = names.wire(&procedure.results)?;
            // Without a name where there is nothing to do.
            let shown = |wire: &Wire, name: &'static str| match wire {
                Wire::Void => "_",
                _ => name,
            };
            let _ = write!(
                text,
                "\npub struct {name};\n\nimpl Procedure for {name} {{\n\
                 const PROGRAM: u32 = {};\nconst VERSION: u32 = {};\nconst NUMBER: u32 = {number};\nconst NAME: &'static str = \"{name}\";\n\
                 type Arguments = {};\ntype Results = {};\n\n\
                 fn encode_arguments({}: &Self::Arguments, {}: &mut Encoder) {{ {} }}\n\n\
                 fn decode_arguments({}: &mut Decoder) -> Result<Self::Arguments, DecodeError> {{ {} }}\n\n\
                 fn encode_results({}: &Self::Results, {}: &mut Encoder) {{ {} }}\n\n\
                 fn decode_results({}: &mut Decoder) -> Result<Self::Results, DecodeError> {{ {} }}\n}}\n",
                definition.name,
                version.name,
                declared_type(&procedure.arguments, names)?,
                declared_type(&procedure.results, names)?,
                shown(&arguments, "it"),
                shown(&arguments, "out"),
                encode(&arguments, "it", true)?,
                shown(&arguments, "input"),
                decoding(&arguments, names)?,
                shown(&results, "it"),
                shown(&results, "out"),
                encode(&results, "it", true)?,
                shown(&results, "input"),
                decoding(&results, names)?,
            );
            procedures.push((name.clone(), small(names.number(&version.number)?)?, number));
        }
    }
    Ok(text)
}

/// One function to get at every procedure by its numbers.
fn visit(procedures: &[Numbered]) -> String {
    if procedures.is_empty() {
        return String::new();
    }
    // Programs of one module with equal versions and numbers (NFSv4 and its callbacks) are told apart by program.
    let mut text = "/// Shows `visitor` the procedure with these numbers, if there is one.\n\
         pub fn visit<V: Visitor>(program: u32, version: u32, number: u32, visitor: V) -> Option<V::Output> {\n\
         Some(match (program, version, number) {\n"
        .to_owned();
    for (name, _, _) in procedures {
        let _ = writeln!(
            text,
            "({name}::PROGRAM, {name}::VERSION, {name}::NUMBER) => visitor.visit::<{name}>(),"
        );
    }
    text += "_ => return None,\n})\n}\n";
    text
}
