//! Images: records, each behind its length (two bytes), loaded as a name space. What loads is saved
//! again and must load to the same.
#![no_main]

use weft_namespace::State;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut records = Vec::new();
    let mut rest = bytes;
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(tail.len());
        records.push(&tail[..length]);
        rest = &tail[length..];
    }
    if let Ok(state) = State::load(&records) {
        let mut saved = Vec::new();
        state.save(&mut |record| saved.push(record.to_vec()));
        let again = State::load(&saved).expect("what was saved loads");
        let mut twice = Vec::new();
        again.save(&mut |record| twice.push(record.to_vec()));
        assert_eq!(saved, twice);
    }
});
