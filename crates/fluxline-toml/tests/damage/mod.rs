//! Random damage to TOML files, as by a hurried or a hostile hand: for the tests of each reader.

/// Words of the implementation, which no message may contain.
const FOREIGN: [&str; 7] =
    ["untagged", "variant", "struct ", "a sequence", "serde", "invalid type", "expected u"];

/// xorshift64*: enough for choosing.
pub struct Dice(u64);

impl Dice {
    pub fn of_seed(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit.max(1)
    }
}

/// Damages one to four lines of a text; `words` take the place of its words.
pub fn damaged(dice: &mut Dice, text: &str, words: &[&str]) -> String {
    let mut lines: Vec<String> = text.lines().map(String::from).collect();
    for _ in 0..=dice.below(3) {
        let (at, other) = (dice.below(lines.len()), dice.below(lines.len()));
        match dice.below(6) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 => {
                let word = words[dice.below(words.len())];
                let line: Vec<&str> = lines[at].split(' ').collect();
                let place = dice.below(line.len());
                let put = |(index, old)| if index == place { word } else { old };
                lines[at] = line.into_iter().enumerate().map(put).collect::<Vec<_>>().join(" ");
            }
            4 => {
                let line: Vec<char> = lines[at].chars().collect();
                lines[at] = line[..dice.below(line.len() + 1)].iter().collect();
            }
            _ => {
                let mut line: Vec<char> = lines[at].chars().collect();
                if !line.is_empty() {
                    let place = dice.below(line.len());
                    line[place] = char::from(32 + dice.below(95) as u8);
                }
                lines[at] = line.into_iter().collect();
            }
        }
        if lines.is_empty() {
            return String::new();
        }
    }
    lines.join("\n")
}

/// Random bytes, and random words.
pub fn nonsense(dice: &mut Dice, words: &[&str]) -> [String; 2] {
    let length = dice.below(200);
    let bytes: Vec<u8> = (0..length).map(|_| dice.below(256) as u8).collect();
    let chosen: Vec<&str> = (0..dice.below(30)).map(|_| words[dice.below(words.len())]).collect();
    let between = [" ", "\n", "."][dice.below(3)];
    [String::from_utf8_lossy(&bytes).into_owned(), chosen.join(between)]
}

/// Fails when a message has a word of the implementation.
pub fn check_words(message: &str, text: &str) {
    for word in FOREIGN {
        assert!(!message.contains(word), "`{word}` is in: {message}\n{text}");
    }
}
