#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fluxline_hostile::run_folder(bytes));
