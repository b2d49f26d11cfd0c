//! Messages of ESS, read by a reader of our own: bytes and positions of the schemas, no code of
//! the encoder.

use flatbuffers::{
    ForwardsUOffset, InvalidFlatbuffer, Vector, Verifiable, Verifier, VerifierOptions,
};

/// A table in a message.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    message: &'a [u8],
    at: usize,
}

fn number<const N: usize>(message: &[u8], at: usize) -> [u8; N] {
    message[at..at + N].try_into().expect("the length")
}

fn offset(message: &[u8], at: usize) -> usize {
    at + u32::from_le_bytes(number(message, at)) as usize
}

impl<'a> Table<'a> {
    pub fn root(message: &'a [u8]) -> Table<'a> {
        Table { message, at: offset(message, 0) }
    }

    /// Returns the place of field number `field`; `None`: it is absent.
    fn place(&self, field: usize) -> Option<usize> {
        let back = i32::from_le_bytes(number(self.message, self.at));
        let list = (self.at as i64 - i64::from(back)) as usize;
        let size = u16::from_le_bytes(number(self.message, list)) as usize;
        let entry = 4 + 2 * field;
        if entry + 2 > size {
            return None;
        }
        match u16::from_le_bytes(number(self.message, list + entry)) {
            0 => None,
            place => Some(self.at + place as usize),
        }
    }

    pub fn number<const N: usize>(&self, field: usize) -> [u8; N] {
        number(self.message, self.place(field).expect("the field"))
    }

    /// Returns the bytes of a vector with items of `size` bytes.
    pub fn bytes(&self, field: usize, size: usize) -> Option<&'a [u8]> {
        let at = offset(self.message, self.place(field)?);
        let count = u32::from_le_bytes(number(self.message, at)) as usize;
        Some(&self.message[at + 4..at + 4 + count * size])
    }

    pub fn text(&self, field: usize) -> Option<&'a str> {
        self.bytes(field, 1).map(|bytes| std::str::from_utf8(bytes).expect("UTF-8"))
    }

    pub fn table(&self, field: usize) -> Table<'a> {
        let at = offset(self.message, self.place(field).expect("a table"));
        Table { message: self.message, at }
    }

    /// Returns the places that a vector of tables or texts refers to.
    fn references(&self, field: usize) -> Vec<usize> {
        let at = offset(self.message, self.place(field).expect("a list"));
        let count = u32::from_le_bytes(number(self.message, at)) as usize;
        (0..count).map(|item| offset(self.message, at + 4 + 4 * item)).collect()
    }

    pub fn tables(&self, field: usize) -> Vec<Table<'a>> {
        let places = self.references(field).into_iter();
        places.map(|at| Table { message: self.message, at }).collect()
    }

    pub fn texts(&self, field: usize) -> Vec<String> {
        let text = |at: usize| {
            let count = u32::from_le_bytes(number(self.message, at)) as usize;
            String::from_utf8(self.message[at + 4..at + 4 + count].to_vec()).expect("UTF-8")
        };
        self.references(field).into_iter().map(text).collect()
    }

    pub fn i64s(&self, field: usize) -> Vec<i64> {
        let bytes = self.bytes(field, 8).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|word| i64::from_le_bytes(*word)).collect()
    }

    pub fn i32s(&self, field: usize) -> Vec<i32> {
        let bytes = self.bytes(field, 4).unwrap_or_default();
        bytes.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
    }
}

/// The identifier of a message.
pub fn identifier(message: &[u8]) -> &str {
    std::str::from_utf8(&message[4..8]).expect("an identifier")
}

type Checked = Result<(), InvalidFlatbuffer>;
type Text = ForwardsUOffset<&'static str>;
type List<T> = ForwardsUOffset<Vector<'static, T>>;

const fn slot(field: u16) -> u16 {
    4 + 2 * field
}

macro_rules! schema {
    ($name:ident: $($field:literal $kind:ty, $required:literal;)*) => {
        struct $name;
        impl Verifiable for $name {
            fn run_verifier(verifier: &mut Verifier<'_, '_>, at: usize) -> Checked {
                verifier
                    .visit_table(at)?
                    $(.visit_field::<$kind>(stringify!($field), slot($field), $required)?)*
                    .finish();
                Ok(())
            }
        }
    };
}

schema!(Ev44: 0 Text, true; 1 i64, false; 2 List<i64>, true; 3 List<i32>, true; 4 List<i32>, false;
    5 List<i32>, false;);
schema!(Variable: 0 Text, true; 1 Text, false; 2 Text, false; 3 Text, false; 4 i8, false;
    5 List<Text>, true; 6 List<i64>, true; 7 List<u8>, true;);
schema!(Da00: 0 Text, true; 1 u64, false; 2 List<ForwardsUOffset<Variable>>, true;);
schema!(Pl72: 0 u64, false; 1 u64, false; 2 Text, false; 3 Text, false; 4 Text, false;
    5 Text, false;
    6 Text, false; 7 Text, false; 8 Text, false; 9 u32, false; 11 Text, false; 12 Text, false;);
schema!(Stop6s4t: 0 u64, false; 1 Text, false; 2 Text, false; 3 Text, false; 4 Text, false;);
schema!(Number1: 0 u8, true;);
schema!(Number2: 0 u16, true;);
schema!(Number4: 0 u32, true;);
schema!(Number8: 0 u64, true;);
schema!(Numbers1: 0 List<u8>, true;);
schema!(Numbers2: 0 List<u16>, true;);
schema!(Numbers4: 0 List<u32>, true;);
schema!(Numbers8: 0 List<u64>, true;);

struct F144;
impl Verifiable for F144 {
    fn run_verifier(verifier: &mut Verifier<'_, '_>, at: usize) -> Checked {
        verifier
            .visit_table(at)?
            .visit_field::<Text>("source_name", slot(0), true)?
            .visit_field::<i64>("timestamp", slot(1), true)?
            .visit_union::<u8, _>("value_type", slot(2), "value", slot(3), true, |kind, of, at| {
                let width = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8][usize::from(kind - 1) % 10];
                match (width, kind > 10) {
                    (1, false) => of.verify_union_variant::<ForwardsUOffset<Number1>>("1", at),
                    (2, false) => of.verify_union_variant::<ForwardsUOffset<Number2>>("2", at),
                    (4, false) => of.verify_union_variant::<ForwardsUOffset<Number4>>("4", at),
                    (_, false) => of.verify_union_variant::<ForwardsUOffset<Number8>>("8", at),
                    (1, true) => of.verify_union_variant::<ForwardsUOffset<Numbers1>>("1", at),
                    (2, true) => of.verify_union_variant::<ForwardsUOffset<Numbers2>>("2", at),
                    (4, true) => of.verify_union_variant::<ForwardsUOffset<Numbers4>>("4", at),
                    (_, true) => of.verify_union_variant::<ForwardsUOffset<Numbers8>>("8", at),
                }
            })?
            .finish();
        Ok(())
    }
}

/// Checks every offset, length and text of a message with the verifier of FlatBuffers.
///
/// # Panics
/// Panics at a message that is not valid.
pub fn verify(message: &[u8]) {
    let options = VerifierOptions::default();
    let mut verifier = Verifier::new(&options, message);
    let verifier = &mut verifier;
    let checked = match identifier(message) {
        "ev44" => <ForwardsUOffset<Ev44>>::run_verifier(verifier, 0),
        "da00" => <ForwardsUOffset<Da00>>::run_verifier(verifier, 0),
        "f144" => <ForwardsUOffset<F144>>::run_verifier(verifier, 0),
        "pl72" => <ForwardsUOffset<Pl72>>::run_verifier(verifier, 0),
        "6s4t" => <ForwardsUOffset<Stop6s4t>>::run_verifier(verifier, 0),
        other => panic!("`{other}` is not a schema"),
    };
    checked.expect("a valid message");
}
