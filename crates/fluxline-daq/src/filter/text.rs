//! Filter expressions as text: to a tree of names, numbers and calls.
//!
//! The operators and their precedence are those of packet descriptions
//! (`fluxline_packet::expression`). Beyond them there are negative numbers, floats, texts in
//! quotes, names with a point, and aggregates.

use fluxline_packet::expression::{Binary, leading_symbol};

use super::value::Value;

/// Longest text of an expression \[byte\].
const BYTES_MAX: usize = 64 * 1024;
/// Deepest nesting, counting a chain of operators as nested.
const DEPTH_MAX: usize = 100;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    /// A number.
    Number(Value),
    /// A text in quotes.
    Text(Word),
    /// A name: of the event, of the packet, of a field.
    Name(Word),
    /// `!a`.
    Not(Box<Tree>),
    /// `-a`.
    Negative(Box<Tree>),
    /// An operator between two.
    Binary(Binary, Box<Tree>, Box<Tree>),
    /// A function or an aggregate with its operands.
    Call(Word, Vec<Tree>),
}

/// A name or text, with its place in the expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The name or text.
    pub text: String,
    /// Its first character, from 1.
    pub column: usize,
}

impl Word {
    /// Returns a sentence about this word.
    pub fn error(&self, problem: impl std::fmt::Display) -> String {
        format!("character {}: {problem}", self.column)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Number(Value),
    Text(String),
    Name(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn show(&self) -> String {
        match self {
            Token::Number(_) => "this number".to_owned(),
            Token::Text(text) => format!("\"{text}\""),
            Token::Name(text) => format!("`{text}`"),
            Token::Symbol(text) => format!("`{text}`"),
            Token::End => "the end".to_owned(),
        }
    }

    fn operator(&self) -> Option<Binary> {
        let Token::Symbol(symbol) = self else { return None };
        Binary::of_symbol(symbol)
    }
}

/// Parses an expression.
///
/// # Errors
/// The mistake, and its place in the text.
pub(super) fn parse(text: &str) -> Result<Tree, String> {
    if text.len() > BYTES_MAX {
        return Err(format!("it has {} bytes; {BYTES_MAX} are allowed", text.len()));
    }
    let mut parser = Parser { text, at: 0, token: Token::End, column: 1 };
    parser.advance()?;
    let tree = parser.binary(0, 0)?;
    match &parser.token {
        Token::End => Ok(tree.0),
        token => Err(parser.error(after_the_end(token))),
    }
}

fn after_the_end(token: &Token) -> String {
    match token {
        Token::Symbol("=") => "`=` does not compare; write `==`".to_owned(),
        Token::Name(name) if name == "and" => "write `&&`".to_owned(),
        Token::Name(name) if name == "or" => "write `||`".to_owned(),
        token => format!("{} is after the end of the expression", token.show()),
    }
}

/// A tree and its depth.
struct Deep(Tree, usize);

struct Parser<'a> {
    text: &'a str,
    /// The place behind the token \[byte\].
    at: usize,
    token: Token,
    /// The token's first character, from 1.
    column: usize,
}

impl Parser<'_> {
    fn error(&self, problem: impl std::fmt::Display) -> String {
        format!("character {}: {problem}", self.column)
    }

    fn check_depth(&self, depth: usize) -> Result<(), String> {
        match depth > DEPTH_MAX {
            true => Err(self.error(format_args!("it is nested more than {DEPTH_MAX} deep"))),
            false => Ok(()),
        }
    }

    /// Parses operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8, nesting: usize) -> Result<Deep, String> {
        let mut left = self.operand(nesting)?;
        while let Some(operator) = self.token.operator().filter(|o| o.binding() >= least) {
            self.advance()?;
            let right = self.binary(operator.binding() + 1, nesting + 1)?;
            let depth = left.1.max(right.1) + 1;
            self.check_depth(depth)?;
            left = Deep(Tree::Binary(operator, Box::new(left.0), Box::new(right.0)), depth);
        }
        Ok(left)
    }

    fn operand(&mut self, nesting: usize) -> Result<Deep, String> {
        self.check_depth(nesting)?;
        let (token, column) = (self.token.clone(), self.column);
        match token {
            Token::End | Token::Symbol("=" | ")" | ",") => {
                return Err(self.error(format_args!(
                    "{} is where a number, a name or `(` is expected",
                    token.show()
                )));
            }
            _ => self.advance()?,
        }
        match token {
            Token::Number(number) => Ok(Deep(Tree::Number(number), 1)),
            Token::Text(text) => Ok(Deep(Tree::Text(Word { text, column }), 1)),
            Token::Name(text) => self.name_or_call(Word { text, column }, nesting),
            Token::Symbol("(") => {
                let inner = self.binary(0, nesting + 1)?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Symbol(symbol @ ("!" | "-")) => {
                let Deep(of, depth) = self.operand(nesting + 1)?;
                self.check_depth(depth + 1)?;
                let of = Box::new(of);
                let tree = if symbol == "!" { Tree::Not(of) } else { Tree::Negative(of) };
                Ok(Deep(tree, depth + 1))
            }
            token => Err(Word { text: String::new(), column }.error(format_args!(
                "{} is where a number, a name or `(` is expected",
                token.show()
            ))),
        }
    }

    fn name_or_call(&mut self, name: Word, nesting: usize) -> Result<Deep, String> {
        if self.token != Token::Symbol("(") {
            return Ok(match name.text.as_str() {
                "true" => Deep(Tree::Number(Value::of_bool(true)), 1),
                "false" => Deep(Tree::Number(Value::of_bool(false)), 1),
                _ => Deep(Tree::Name(name), 1),
            });
        }
        self.advance()?;
        let (mut operands, mut depth) = (Vec::new(), 0);
        loop {
            let Deep(operand, its) = self.binary(0, nesting + 1)?;
            operands.push(operand);
            depth = depth.max(its);
            if self.token != Token::Symbol(",") {
                break;
            }
            self.advance()?;
        }
        self.expect(")")?;
        self.check_depth(depth + 1)?;
        Ok(Deep(Tree::Call(name, operands), depth + 1))
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), String> {
        match &self.token {
            Token::Symbol(found) if *found == symbol => self.advance(),
            Token::Symbol("=") => Err(self.error("`=` does not compare; write `==`")),
            token => {
                Err(self.error(format_args!("{} is where `{symbol}` is expected", token.show())))
            }
        }
    }

    fn advance(&mut self) -> Result<(), String> {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        self.column = self.text[..self.at].chars().count() + 1;
        let Some(first) = rest.chars().next() else {
            self.token = Token::End;
            return Ok(());
        };
        let len = match first {
            '"' | '\'' => self.quoted(rest, first)?,
            _ if first.is_ascii_digit() => self.number(rest)?,
            _ if is_word(first) => {
                let is_part = |c: char| is_word(c) || c.is_ascii_digit() || c == '.' || c == '-';
                let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
                // A minus belongs to a name only between letters of a packet type: `a-b.c`.
                let len = name_length(&rest[..len]);
                self.token = Token::Name(rest[..len].to_owned());
                len
            }
            _ => self.symbol(rest)?,
        };
        self.at += len;
        Ok(())
    }

    fn symbol(&mut self, rest: &str) -> Result<usize, String> {
        let symbol = leading_symbol(rest).ok_or_else(|| {
            let first = rest.chars().next().unwrap_or(' ');
            self.error(format_args!("`{}` has no meaning here", first.escape_debug()))
        })?;
        self.token = Token::Symbol(symbol);
        Ok(symbol.len())
    }

    fn quoted(&mut self, rest: &str, quote: char) -> Result<usize, String> {
        let len = rest[1..].find(quote).ok_or_else(|| self.error("this quote has no end"))?;
        self.token = Token::Text(rest[1..=len].to_owned());
        Ok(len + 2)
    }

    fn number(&mut self, rest: &str) -> Result<usize, String> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let mut len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let has_exponent = rest[..len].ends_with(['e', 'E']) && !rest.starts_with("0x");
        if has_exponent && rest[len..].starts_with(['-', '+']) {
            let more = rest[len + 1..].find(|c: char| !c.is_ascii_digit());
            len += 1 + more.unwrap_or(rest.len() - len - 1);
        }
        let plain: String = rest[..len].chars().filter(|&c| c != '_').collect();
        let value = match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
            Some(hex) => u64::from_str_radix(hex, 16).ok().map(|n| Value::Integer(n.into())),
            None => match plain.parse::<u64>() {
                Ok(number) => Some(Value::Integer(number.into())),
                Err(_) => plain.parse().ok().filter(|n: &f64| n.is_finite()).map(Value::Float),
            },
        };
        let wrong = || self.error(format_args!("`{}` is not a number", &rest[..len]));
        self.token = Token::Number(value.ok_or_else(wrong)?);
        Ok(len)
    }
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphabetic() || character == '_'
}

/// Returns the length of the name at the start of `text`, which may be a packet type with minus
/// signs, a point, and a field; without a point, it ends before the first minus.
fn name_length(text: &str) -> usize {
    let plain = |text: &str| {
        let is_part = |c: char| is_word(c) || c.is_ascii_digit();
        text.find(|c| !is_part(c)).unwrap_or(text.len())
    };
    match text.split_once('.') {
        Some((before, after)) if plain(after) > 0 => before.len() + 1 + plain(after),
        _ => plain(text),
    }
}
