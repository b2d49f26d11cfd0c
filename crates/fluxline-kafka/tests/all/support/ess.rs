//! Messages of ESS, read by a reader of our own: bytes and positions of the schemas, no code of
//! the encoder.

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
