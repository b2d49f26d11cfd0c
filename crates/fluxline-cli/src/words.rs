//! Options whose values are words of the experiment file.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer;
use serde::de::value::Error;

/// A word of the experiment file, and its line in `--help`.
pub type Word = (&'static str, &'static str);

/// Returns a parser that takes these words, and reads them as the experiment file does.
pub fn words<T>(words: &'static [Word]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    let values = words.iter().map(|(word, help)| PossibleValue::new(*word).help(*help));
    PossibleValuesParser::new(values).try_map(|word| {
        let word: serde::de::value::StringDeserializer<Error> = word.into_deserializer();
        T::deserialize(word)
    })
}
