//! What the generator takes and what it refuses.

use weft_xdrgen::rust_for;

fn refusal(text: &str) -> String {
    match rust_for(text) {
        Ok(rust) => panic!("{text:?} was taken:\n{rust}"),
        Err(why) => why,
    }
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    let cases = [
        ("const A = ;", "1: a name was expected"),
        ("\nenum a { B };", "2: '=' was expected"),
        ("struct a { int b };", "1: ';' was expected"),
        ("struct a { };", "a field was expected"),
        ("struct a { opaque b; };", "a length was expected"),
        ("struct a { float b; };", "no floating point"),
        (
            "union a switch (int b) { int c; };",
            "\"case\" was expected",
        ),
        ("const A = 08;", "\"08\" is no number"),
        ("const A = 1", "not the end of the file"),
        ("/* never ends", "a comment has no end"),
        ("const A = 1 ? 2;", "'?' begins no word"),
        ("struct a { b c; };", "nothing defines b"),
        ("struct a { int b<C>; };", "nothing defines the value C"),
        ("struct a { int b[-1]; };", "-1 is no length"),
        ("const A = 1;\nstruct a { A b; };", "A is no type"),
        (
            "struct a { int b; };\nstruct a { int b; };",
            "2: a is defined twice",
        ),
        (
            "enum a { B = 1 };\nenum c { B = 2 };",
            "2: B has a value already",
        ),
        (
            "struct b { int c; };\nunion a switch (b d) { case 1: void; };",
            "nothing to switch by",
        ),
    ];
    for (text, wanted) in cases {
        let why = refusal(text);
        assert!(why.contains(wanted), "{text:?}: {why}");
    }
}

#[test]
fn a_type_that_holds_itself_is_refused_unless_it_is_a_list() {
    for text in [
        "struct a { int b; a c<>; };",
        "struct a { a *b; int c; };",
        "struct a { b *c; int d; };\nstruct b { a *c; int d; };",
        "union a switch (int b) { case 1: a c; default: void; };",
        "typedef a b<>;\nstruct a { b c; };",
    ] {
        let why = refusal(text);
        assert!(why.contains("holds itself"), "{text:?}: {why}");
    }
    let rust = rust_for("struct a { int b; a *next; };\nstruct c { a *first; };").unwrap();
    assert!(rust.contains("first: Vec<a>"), "{rust}");
    let rust = rust_for("typedef struct a *c;\nstruct a { int b; c next; };").unwrap();
    assert!(rust.contains("type c = Vec<a>"), "{rust}");
}

#[test]
fn a_later_declaration_extends_an_enum_and_a_union() {
    let rust = rust_for(
        "enum a { B = 1 };\nunion u switch (a by) { case B: int c; };\n\
         enum a { D = 2 };\nunion u switch (a by) { case D: void; };",
    )
    .unwrap();
    assert!(rust.contains("B = 1,\nD = 2,"), "{rust}");
    assert!(rust.contains("B(i32),\nD,"), "{rust}");
}

#[test]
fn lines_for_other_compilers_are_left_out() {
    let rust = rust_for("%#include <a>\n#ifdef B\nconst C = 0x10; /* one\n% two */ const D = 010;")
        .unwrap();
    assert!(
        rust.contains("C: u32 = 16;") && rust.contains("D: u32 = 8;"),
        "{rust}"
    );
}
