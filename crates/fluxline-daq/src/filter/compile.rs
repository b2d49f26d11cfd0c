//! Resolves the names of an expression, for every packet type of every input.

use fluxline_packet::expression::Binary;
use fluxline_packet::layout::PacketType;
use fluxline_packet::{Description, nearest};

use super::load::{Access, access, is_raw, sample_bytes};
use super::names::{AGGREGATES, Aggregate, EVENT_NAMES, EventName, PACKET_NAMES, PacketName, find};
use super::text::{Tree, Word, parse};
use super::value::{NO_TEXT, Value};
use crate::event::EventStatus;

/// An input whose packets a filter reads.
#[derive(Clone, Copy, Debug)]
pub struct FilterInput<'a> {
    /// Its name in the experiment.
    pub name: &'a str,
    /// The description of its packets.
    pub description: &'a Description,
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    /// The value of an event.
    pub root: Expression,
    /// The aggregates over packets, which `root` names by number.
    pub aggregates: Vec<OverPackets>,
    /// The packet types of each input.
    pub inputs: Vec<InputPlan>,
    /// The texts that the expression names.
    texts: Vec<String>,
}

impl Compiled {
    /// Returns the number of a text; [`NO_TEXT`] when the expression does not name it.
    pub fn text_number(&self, text: &str) -> u32 {
        number_of(&self.texts, text)
    }
}

/// An expression with all names resolved.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Constant(Value),
    Event(EventName),
    Packet(PacketName),
    /// Field number `0` of [`TypePlan::fields`].
    Field(usize),
    /// The aggregate of that number: of [`Compiled::aggregates`] in an event, of
    /// [`OverPackets::inner`] in a packet.
    Aggregate(usize),
    Not(Box<Expression>),
    Negative(Box<Expression>),
    Magnitude(Box<Expression>),
    Binary(Binary, Box<Expression>, Box<Expression>),
}

/// An aggregate over packets, or over all their samples.
#[derive(Clone, Debug)]
pub(super) struct OverPackets {
    pub aggregate: Aggregate,
    pub body: Expression,
    /// Fields that a packet must have to take part.
    pub needed: Vec<usize>,
    /// Of these, those of `body` itself, outside of `inner`.
    pub direct: Vec<usize>,
    /// Aggregates over the samples of one packet, which `body` names by number.
    pub inner: Vec<OverSamples>,
}

impl OverPackets {
    fn of(aggregate: Aggregate, body: Expression, scope: Scope) -> OverPackets {
        let mut needed = scope.fields.clone();
        needed.extend(scope.samples.iter().flat_map(|one| one.fields.iter().copied()));
        let (direct, inner) = (scope.fields, scope.samples);
        OverPackets { aggregate, body, needed, direct, inner }
    }
}

/// An aggregate over the samples of one packet.
#[derive(Clone, Debug)]
pub(super) struct OverSamples {
    pub aggregate: Aggregate,
    pub body: Expression,
    pub fields: Vec<usize>,
}

/// Expressions over the values of one packet.
#[derive(Clone, Debug)]
pub(super) struct CompiledValues {
    /// The names that they share; its root is not used.
    pub names: Compiled,
    /// One for each text.
    pub bodies: Vec<Expression>,
    /// Their fields and aggregates, as of one aggregate over packets.
    pub over: OverPackets,
}

/// A mistake in one of several expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongValue {
    /// The number of the expression.
    pub number: usize,
    /// The mistake and its place, in one sentence.
    pub sentence: String,
}

/// The packet types of an input.
#[derive(Clone, Debug)]
pub(super) struct InputPlan {
    pub name: u32,
    pub types: Vec<TypePlan>,
}

/// A packet type: the places of the fields that the expression names.
#[derive(Clone, Debug)]
pub(super) struct TypePlan {
    pub name: u32,
    pub fields: Vec<Option<Access>>,
    /// Size of every sample, where it is fixed \[byte\].
    pub sample_bytes: Option<usize>,
    pub packet: PacketType,
}

fn number_of(texts: &[String], text: &str) -> u32 {
    texts.iter().position(|known| known == text).map_or(NO_TEXT, |at| at as u32)
}

/// Compiles an expression; the error is one sentence.
pub(super) fn compile(text: &str, inputs: &[FilterInput<'_>]) -> Result<Compiled, String> {
    let tree = parse(text)?;
    let mut resolver = Resolver { inputs, fields: Vec::new(), texts: Vec::new() };
    let mut event = Scope::default();
    let root = resolver.expression(&tree, &mut event, Level::Event)?;
    Ok(resolver.finish(root, event.packets))
}

/// Compiles expressions over the values of one packet; the error has the number of the wrong one.
pub(super) fn compile_values(
    texts: &[&str],
    inputs: &[FilterInput<'_>],
) -> Result<CompiledValues, WrongValue> {
    let mut resolver = Resolver { inputs, fields: Vec::new(), texts: Vec::new() };
    let (mut packet, mut bodies) = (Scope::default(), Vec::new());
    for (number, text) in texts.iter().enumerate() {
        let tree = parse(text).map_err(|sentence| WrongValue { number, sentence })?;
        let body = resolver.expression(&tree, &mut packet, Level::Packet);
        bodies.push(body.map_err(|sentence| WrongValue { number, sentence })?);
    }
    let none = Expression::Constant(Value::Absent);
    let over = OverPackets::of(Aggregate::Any, none.clone(), packet);
    Ok(CompiledValues { names: resolver.finish(none, Vec::new()), bodies, over })
}

fn type_plan(packet: &PacketType, fields: &[String], texts: &[String]) -> TypePlan {
    let place = |written: &String| match written.rsplit_once('.') {
        Some((of, name)) if of == packet.name => access(packet, name),
        Some(_) => None,
        None => access(packet, written),
    };
    TypePlan {
        name: number_of(texts, &packet.name),
        fields: fields.iter().map(place).collect(),
        sample_bytes: sample_bytes(packet),
        packet: packet.clone(),
    }
}

/// The level at which a name is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Event,
    Packet,
    Sample,
}

/// The aggregates and fields found so far at one level.
#[derive(Default)]
struct Scope {
    packets: Vec<OverPackets>,
    samples: Vec<OverSamples>,
    fields: Vec<usize>,
}

impl Scope {
    fn note(&mut self, field: usize) {
        if !self.fields.contains(&field) {
            self.fields.push(field);
        }
    }
}

struct Resolver<'a> {
    inputs: &'a [FilterInput<'a>],
    /// The fields by number, as written.
    fields: Vec<String>,
    texts: Vec<String>,
}

impl Resolver<'_> {
    /// Returns the compiled expression, with the places of its fields in every packet type.
    fn finish(self, root: Expression, aggregates: Vec<OverPackets>) -> Compiled {
        let Resolver { inputs, fields, texts } = self;
        let plans = inputs.iter().map(|input| InputPlan {
            name: number_of(&texts, input.name),
            types: input
                .description
                .packet_types()
                .iter()
                .map(|packet| type_plan(packet, &fields, &texts))
                .collect(),
        });
        Compiled { inputs: plans.collect(), root, aggregates, texts }
    }

    fn expression(
        &mut self,
        tree: &Tree,
        scope: &mut Scope,
        level: Level,
    ) -> Result<Expression, String> {
        Ok(match tree {
            Tree::Number(value) => Expression::Constant(*value),
            Tree::Text(word) => return Err(lonely_text(word)),
            Tree::Name(word) => self.name(word, scope, level)?,
            Tree::Not(of) => Expression::Not(Box::new(self.expression(of, scope, level)?)),
            Tree::Negative(of) => {
                Expression::Negative(Box::new(self.expression(of, scope, level)?))
            }
            Tree::Call(function, operands) => self.call(function, operands, scope, level)?,
            Tree::Binary(operator, left, right) => match (&**left, &**right) {
                (text, Tree::Text(word)) | (Tree::Text(word), text) => {
                    self.text_comparison(*operator, text, word, level)?
                }
                _ => {
                    let left = self.expression(left, scope, level)?;
                    let right = self.expression(right, scope, level)?;
                    Expression::Binary(*operator, Box::new(left), Box::new(right))
                }
            },
        })
    }

    fn name(&mut self, word: &Word, scope: &mut Scope, level: Level) -> Result<Expression, String> {
        let name = word.text.as_str();
        if let Some(of) = find(&EVENT_NAMES, name) {
            return match of {
                EventName::Status => Err(needs_text(word, "\"complete\"")),
                _ => Ok(Expression::Event(of)),
            };
        }
        if let Some(of) = find(&PACKET_NAMES, name) {
            return match of {
                PacketName::Source | PacketName::Input | PacketName::Type => {
                    Err(needs_text(word, "a name in quotes"))
                }
                _ if level == Level::Event => Err(needs_aggregate(word)),
                _ => Ok(Expression::Packet(of)),
            };
        }
        self.check_field(word)?;
        if level == Level::Event {
            return Err(needs_aggregate(word));
        }
        let field = self.fields.iter().position(|known| known == name).unwrap_or_else(|| {
            self.fields.push(name.to_owned());
            self.fields.len() - 1
        });
        scope.note(field);
        Ok(Expression::Field(field))
    }

    /// Checks that some packet type has the field, as a number.
    fn check_field(&self, word: &Word) -> Result<(), String> {
        let (of, name) = match word.text.rsplit_once('.') {
            Some((of, name)) => (Some(of), name),
            None => (None, word.text.as_str()),
        };
        let types = || self.types().filter(|packet| of.is_none_or(|of| of == packet.name));
        let mut found = types().filter(|packet| access(packet, name).is_some()).peekable();
        if found.peek().is_some() {
            return match found.all(|packet| is_raw(packet, name)) {
                true => Err(word.error(format_args!("`{name}` is raw bytes, not a number"))),
                false => Ok(()),
            };
        }
        Err(word.error(self.unknown_name(&word.text)))
    }

    fn types(&self) -> impl Iterator<Item = &PacketType> {
        self.inputs.iter().flat_map(|input| input.description.packet_types())
    }

    fn unknown_name(&self, name: &str) -> String {
        let mut known: Vec<String> = self
            .types()
            .flat_map(|packet| {
                let columns = packet.columns().into_iter().chain(packet.record_columns());
                columns.flat_map(|column| [format!("{}.{}", packet.name, column.name), column.name])
            })
            .collect();
        known.extend(EVENT_NAMES.iter().map(|row| row.0.to_owned()));
        known.extend(PACKET_NAMES.iter().map(|row| row.0.to_owned()));
        match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("no packet type has `{name}`; did you mean `{near}`?"),
            None => format!(
                "no packet type has `{name}`; write a field of a description, `event.complete` \
                 or `packet.bytes`"
            ),
        }
    }

    fn call(
        &mut self,
        function: &Word,
        operands: &[Tree],
        scope: &mut Scope,
        level: Level,
    ) -> Result<Expression, String> {
        let name = function.text.as_str();
        match (name, operands) {
            ("min" | "max", [first, rest @ ..]) if !rest.is_empty() => {
                let operator = if name == "min" { Binary::Minimum } else { Binary::Maximum };
                let mut result = self.expression(first, scope, level)?;
                for operand in rest {
                    let operand = self.expression(operand, scope, level)?;
                    result = Expression::Binary(operator, Box::new(result), Box::new(operand));
                }
                Ok(result)
            }
            ("abs", [of]) => {
                Ok(Expression::Magnitude(Box::new(self.expression(of, scope, level)?)))
            }
            (_, [body]) => match find(&AGGREGATES, name) {
                Some(aggregate) => {
                    self.aggregate(aggregate, body, scope, &Call { function, level })
                }
                None => Err(unknown_function(function)),
            },
            _ if find(&AGGREGATES, name).is_some() || name == "abs" => {
                Err(function.error(format_args!("`{name}` takes one operand")))
            }
            _ => Err(unknown_function(function)),
        }
    }

    fn aggregate(
        &mut self,
        aggregate: Aggregate,
        body: &Tree,
        scope: &mut Scope,
        call: &Call<'_>,
    ) -> Result<Expression, String> {
        let mut inner = Scope::default();
        match call.level {
            Level::Event => {
                let body = self.expression(body, &mut inner, Level::Packet)?;
                scope.packets.push(OverPackets::of(aggregate, body, inner));
                Ok(Expression::Aggregate(scope.packets.len() - 1))
            }
            Level::Packet if aggregate == Aggregate::Sources => Err(call
                .function
                .error("`sources` counts over an event; one packet has one source")),
            Level::Packet => {
                let body = self.expression(body, &mut inner, Level::Sample)?;
                scope.samples.push(OverSamples { aggregate, body, fields: inner.fields });
                Ok(Expression::Aggregate(scope.samples.len() - 1))
            }
            Level::Sample => Err(call.function.error(
                "aggregates nest twice at most: over the packets of an event, and over the \
                 samples of a packet",
            )),
        }
    }

    fn text_comparison(
        &mut self,
        operator: Binary,
        text: &Tree,
        word: &Word,
        level: Level,
    ) -> Result<Expression, String> {
        let Tree::Name(name) = text else { return Err(lonely_text(word)) };
        if !matches!(operator, Binary::Equal | Binary::NotEqual) {
            return Err(word.error("a text is compared by `==` or `!=`"));
        }
        let event = find(&EVENT_NAMES, &name.text).filter(|of| *of == EventName::Status);
        let packet = find(&PACKET_NAMES, &name.text);
        let (left, known): (Expression, Option<Vec<&str>>) = match (event, packet) {
            (Some(of), _) => {
                let statuses = &EventStatus::ALL[..3];
                let statuses = statuses.iter().map(|status| status.as_str());
                (Expression::Event(of), Some(statuses.collect()))
            }
            (_, Some(_)) if level == Level::Event => return Err(needs_aggregate(name)),
            (_, Some(of @ PacketName::Type)) => {
                let names = self.types().map(|packet| packet.name.as_str());
                (Expression::Packet(of), Some(names.collect()))
            }
            (_, Some(of @ PacketName::Input)) => {
                let names = self.inputs.iter().map(|input| input.name);
                (Expression::Packet(of), Some(names.collect()))
            }
            // Labels of sources are known when they send.
            (_, Some(of @ PacketName::Source)) => (Expression::Packet(of), None),
            _ => return Err(word.error(format_args!("`{}` is not a text", name.text))),
        };
        if let Some(known) = known.filter(|known| !known.contains(&word.text.as_str())) {
            return Err(word.error(format_args!(
                "`{}` is never \"{}\"; write {}",
                name.text,
                word.text,
                known.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(" or ")
            )));
        }
        let right = Expression::Constant(Value::Text(self.text_of(name, word)));
        Ok(Expression::Binary(operator, Box::new(left), Box::new(right)))
    }

    /// Returns the number of a text: of a status its place among all, else a new one.
    fn text_of(&mut self, name: &Word, word: &Word) -> u32 {
        if name.text == "event.status" {
            let is_it = |status: &EventStatus| status.as_str() == word.text;
            return EventStatus::ALL.iter().position(is_it).map_or(NO_TEXT, |at| at as u32);
        }
        match number_of(&self.texts, &word.text) {
            NO_TEXT => {
                self.texts.push(word.text.clone());
                (self.texts.len() - 1) as u32
            }
            number => number,
        }
    }
}

/// A call with the level at which it is made.
struct Call<'a> {
    function: &'a Word,
    level: Level,
}

fn lonely_text(word: &Word) -> String {
    word.error(
        "a text is compared with `event.status`, `packet.type`, `packet.input` or `packet.source`",
    )
}

fn needs_text(word: &Word, example: &str) -> String {
    word.error(format_args!("`{0}` is a text; compare it: `{0} == ...` with {example}", word.text))
}

fn needs_aggregate(word: &Word) -> String {
    word.error(format_args!(
        "`{0}` has a value in each packet; write an aggregate, such as any({0} > 0), max({0}) \
         or sum({0})",
        word.text
    ))
}

fn unknown_function(function: &Word) -> String {
    let names = AGGREGATES.iter().map(|row| row.0).chain(["abs"]);
    let near = nearest(&function.text, names.clone());
    let hint = match near {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", names.collect::<Vec<_>>().join(", ")),
    };
    function.error(format_args!("`{}` is not a function; {hint}", function.text))
}
