//! Configuration files: any text gives settings, which print as text that gives the same, or an error.
#![no_main]

fn check<T: serde::Serialize + serde::de::DeserializeOwned>(text: &str) {
    if let Ok(settings) = toml::from_str::<T>(text)
        && let Ok(printed) = toml::to_string(&settings)
    {
        let again: T = toml::from_str(&printed).expect("what was printed is read");
        assert_eq!(toml::to_string(&again).ok(), Some(printed));
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check::<weft_meta::Settings>(text);
        check::<weft_data::Settings>(text);
        check::<weft_mount::Settings>(text);
    }
});
