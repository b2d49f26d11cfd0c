//! The judge: the one place that compares the numbers of models with facts.

use super::pair::BadStand;
use super::published::{Axis, Fact, Origin, Published, Question};

/// Published experiments with one family of networks: a file, and the models that repeat them.
#[derive(Debug)]
pub struct Set {
    /// The name on the command line.
    pub name: &'static str,
    /// The name of the file.
    pub file: &'static str,
    pub(super) text: &'static str,
    pub(super) run: fn(&Facts) -> Result<Run, BadStand>,
    pub(super) value: fn(model: &str, name: &str) -> Option<String>,
}

/// The facts of all files, for models.
pub(super) struct Facts(pub(super) Vec<&'static Fact>);

impl Facts {
    /// Returns the fact of a name.
    ///
    /// # Panics
    /// When no file has it: the models and the files do not fit.
    pub(super) fn get(&self, id: &str) -> &'static Fact {
        let found = self.0.iter().find(|fact| fact.id == id);
        found.unwrap_or_else(|| panic!("a model has a number for the fact `{id}`; no file has it"))
    }

    /// Returns the value that is farthest from the published range of a fact.
    pub(super) fn worst(&self, id: &str, values: impl IntoIterator<Item = f64>) -> f64 {
        self.get(id).worst(values)
    }

    /// Shows a model's number for a fact, and marks a miss.
    pub(super) fn shown(&self, id: &str, model: f64) -> String {
        let mark = if (Finding { fact: self.get(id), model }).holds() { "" } else { " (missed)" };
        format!("{model:.2}{mark}")
    }

    /// Returns true if a model's number agrees with a fact.
    pub(super) fn holds(&self, number: &Number) -> bool {
        Finding { fact: self.get(number.0), model: number.1 }.holds()
    }
}

/// A model's number for a fact, by its name.
pub(super) type Number = (&'static str, f64);

/// The results of the models of a set.
#[derive(Default)]
pub(super) struct Run {
    /// The numbers of facts that are not read off a curve.
    pub numbers: Vec<Number>,
    /// The curves of figures, by their names.
    pub figures: Vec<(&'static str, Vec<Curve>)>,
    /// The rows of variants, by their names.
    pub trials: Vec<(&'static str, Vec<Vec<String>>)>,
}

/// A line of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The name.
    pub name: String,
    /// (x, y), by x.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Measures a curve at some sizes.
    pub(super) fn of<E>(
        name: &str,
        sizes: impl IntoIterator<Item = u32>,
        of: impl Fn(u32) -> Result<f64, E>,
    ) -> Result<Curve, E> {
        let points = sizes.into_iter().map(|size| Ok((f64::from(size), of(size)?)));
        Ok(Curve { name: name.to_string(), points: points.collect::<Result<_, E>>()? })
    }

    /// Makes the curve of a function of x and y.
    pub(super) fn map(&self, of: impl Fn(f64, f64) -> f64) -> Curve {
        let points = self.points.iter().map(|&(x, y)| (x, of(x, y)));
        Curve { name: self.name.clone(), points: points.collect() }
    }

    /// Returns the value at `x`; 0 if the curve has no such point.
    #[must_use]
    pub fn at(&self, x: u32) -> f64 {
        let found = self.points.iter().find(|point| point.0 == f64::from(x));
        found.map_or(0.0, |point| point.1)
    }

    /// Returns the largest value.
    #[must_use]
    pub fn most(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// Returns the first x whose value is at least `part` of the largest.
    #[must_use]
    pub fn first_at(&self, part: f64) -> f64 {
        let enough = part * self.most();
        self.points.iter().find(|point| point.1 >= enough).map_or(0.0, |point| point.0)
    }

    /// Returns the least-squares line: (y at 0, slope).
    pub(super) fn line(&self) -> (f64, f64) {
        let count = self.points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| self.points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let both: f64 = self.points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
        let square: f64 = self.points.iter().map(|point| (point.0 - x).powi(2)).sum();
        (y - both / square * x, both / square)
    }
}

/// A fact that is a point of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The position on the horizontal axis.
    pub x: f64,
    /// The fact.
    pub fact: &'static Fact,
}

/// A published figure, reproduced by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A short name: `scinet-7`.
    pub id: &'static str,
    /// The title.
    pub title: &'static str,
    /// The horizontal axis.
    pub x: &'static Axis,
    /// The vertical axis.
    pub y: &'static Axis,
    /// The curves of the model.
    pub curves: Vec<Curve>,
    /// The paper's numbers that are points of it.
    pub points: Vec<Point>,
}

impl Figure {
    /// Returns the paper's numbers, by x; a range gives both its ends.
    #[must_use]
    pub fn published(&self) -> Vec<(f64, f64)> {
        let ends = |point: &Point| {
            let range = &point.fact.published;
            [(point.x, *range.start()), (point.x, *range.end())]
        };
        let mut points: Vec<(f64, f64)> = self.points.iter().flat_map(ends).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        points.dedup();
        points
    }
}

/// A fact with the model's number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// The fact.
    pub fact: &'static Fact,
    /// The model's number.
    pub model: f64,
}

impl Finding {
    /// Returns the deviation from the published range, as a fraction of its nearer end.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        self.fact.deviation(self.model)
    }

    /// Returns true if the model agrees with the source.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.deviation().abs() <= self.fact.tolerance
    }
}

/// A parameter of a model, with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The machine or network.
    pub machine: &'static str,
    /// The quantity.
    pub name: &'static str,
    /// The value, with its unit.
    pub value: String,
    /// The origin.
    pub origin: Origin,
    /// The statement, table or page behind it, or the reason for an assumption.
    pub reason: &'static str,
    /// The facts that it was chosen from or that state it: no predictions.
    pub facts: Vec<&'static Fact>,
}

impl Parameter {
    /// Returns `machine: name`.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}: {}", self.machine, self.name)
    }
}

/// The judgement of a fact: exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The model agrees with a number, and no parameter was chosen from the fact.
    Predicted,
    /// The model agrees with a shape or a bound, and no parameter was chosen from the fact.
    Shape,
    /// The model agrees, and a parameter was chosen from the fact, or it follows from a definition
    /// or another calibration: agreement proves nothing.
    Calibrated,
    /// The model disagrees.
    Missed,
    /// The measurement of another fact in another unit; it does not count.
    Repeated,
}

impl Verdict {
    /// All verdicts, in the order of the columns.
    pub const ALL: [Verdict; 5] = [
        Verdict::Predicted,
        Verdict::Shape,
        Verdict::Calibrated,
        Verdict::Missed,
        Verdict::Repeated,
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Predicted => "predicted",
            Verdict::Shape => "shape",
            Verdict::Calibrated => "calibrated",
            Verdict::Missed => "missed",
            Verdict::Repeated => "repeated",
        }
    }
}

/// A judged fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The fact and the model's number.
    pub finding: Finding,
    /// The deviation from the published range, as a fraction of its nearer end.
    pub deviation: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The parameters that were chosen from the fact, as `machine: name`, and what else it follows
    /// from.
    pub chosen: Vec<String>,
}

impl Judged {
    /// Judges a fact, with the repetitions of its measurement in other units: all must hold, and
    /// none may have chosen a parameter. Whether it is calibrated follows from the file alone, so a
    /// fact cannot be a calibration and a prediction.
    #[must_use]
    pub fn of(finding: Finding, repeats: &[Finding], parameters: &[Parameter]) -> Judged {
        let all = || std::iter::once(&finding).chain(repeats);
        let is_one = |id: &str| all().any(|one| one.fact.id == id);
        let names = |one: &&Parameter| one.facts.iter().any(|fact| is_one(&fact.id));
        let mut chosen: Vec<String> =
            parameters.iter().filter(names).map(Parameter::full_name).collect();
        chosen.extend(finding.fact.follows.clone());
        let verdict = match finding.fact {
            Fact { same_as: Some(_), .. } => Verdict::Repeated,
            _ if !all().all(Finding::holds) => Verdict::Missed,
            _ if !chosen.is_empty() => Verdict::Calibrated,
            fact if fact.is_shape() => Verdict::Shape,
            _ => Verdict::Predicted,
        };
        Judged { finding, deviation: finding.deviation(), verdict, chosen }
    }
}

/// Variants of a model, each with its numbers, where the sources do not decide.
#[derive(Clone, Debug)]
pub struct Trials {
    /// The question.
    pub title: &'static str,
    /// The conclusion.
    pub text: &'static str,
    /// The names of the columns.
    pub columns: &'static [String],
    /// One row for each variant.
    pub rows: Vec<Vec<String>>,
}

/// The comparison of a set's facts with its models.
#[derive(Debug)]
pub struct Comparison {
    /// The set.
    pub set: &'static Set,
    /// The file of the set.
    pub published: &'static Published,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Each fact, judged.
    pub facts: Vec<Judged>,
    /// The parameters of the models.
    pub parameters: Vec<Parameter>,
    /// Variants of the models.
    pub trials: Vec<Trials>,
}

/// Returns the model's number for a fact: its own, or that of a curve.
pub(super) fn number(fact: &Fact, run: &Run) -> Option<f64> {
    if let Some(own) = run.numbers.iter().find(|number| number.0 == fact.id) {
        return Some(own.1);
    }
    let at = fact.points.first()?;
    let (_, curves) = run.figures.iter().find(|figure| figure.0 == at.figure)?;
    curves.first()?.points.iter().find(|point| point.0 == at.x).map(|point| point.1)
}

pub(super) fn figure(published: &'static Published, id: &str, curves: Vec<Curve>) -> Figure {
    let plate = published.figures.iter().find(|plate| plate.id == id);
    let plate = plate.unwrap_or_else(|| panic!("no file describes the figure `{id}`"));
    let of = |fact: &'static Fact| {
        let here = fact.points.iter().filter(|at| at.figure == plate.id);
        here.map(move |at| Point { x: at.x, fact })
    };
    let points = published.facts.iter().flat_map(of).collect();
    Figure { id: &plate.id, title: &plate.title, x: &plate.x, y: &plate.y, curves, points }
}

pub(super) fn question(published: &'static Published, id: &str) -> &'static Question {
    let found = published.trials.iter().find(|trial| trial.id == id);
    found.unwrap_or_else(|| panic!("no file describes the variants `{id}`"))
}

impl Trials {
    pub(super) fn of(of: &'static Question, rows: Vec<Vec<String>>) -> Trials {
        Trials { title: &of.title, text: &of.text, columns: &of.columns, rows }
    }
}

impl Comparison {
    /// Returns the number of facts with a verdict.
    #[must_use]
    pub fn count(&self, verdict: Verdict) -> usize {
        self.facts.iter().filter(|fact| fact.verdict == verdict).count()
    }

    /// Returns the number of shapes and bounds, or of numbers, with a verdict.
    #[must_use]
    pub fn count_of(&self, is_shape: bool, verdict: Verdict) -> usize {
        let facts = self.facts.iter().filter(|of| of.finding.fact.is_shape() == is_shape);
        facts.filter(|fact| fact.verdict == verdict).count()
    }

    /// Returns the counts of all verdicts as a sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        let (numbers, shapes) = (Tally::of([self], false), Tally::of([self], true));
        format!(
            "{}: {} published numbers: {} predicted, {} met by calibration, {} missed. {} shapes \
             and bounds: {} met freely, {} met by calibration, {} missed.",
            self.set.name,
            numbers.all(),
            numbers.free,
            numbers.calibrated,
            numbers.missed,
            shapes.all(),
            shapes.free,
            shapes.calibrated,
            shapes.missed,
        )
    }
}

/// The verdicts on numbers, or on shapes and bounds; each measurement counts once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers that are predicted, or shapes that hold.
    pub free: usize,
    /// Met by calibration.
    pub calibrated: usize,
    /// Those that are missed.
    pub missed: usize,
}

impl Tally {
    /// Counts the verdicts on shapes and bounds, or on numbers, of some comparisons.
    pub fn of<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>, is_shape: bool) -> Tally {
        let free = if is_shape { Verdict::Shape } else { Verdict::Predicted };
        comparisons.into_iter().fold(Tally::default(), |sum, one| Tally {
            free: sum.free + one.count_of(is_shape, free),
            calibrated: sum.calibrated + one.count_of(is_shape, Verdict::Calibrated),
            missed: sum.missed + one.count_of(is_shape, Verdict::Missed),
        })
    }

    /// Returns the sum.
    #[must_use]
    pub fn all(&self) -> usize {
        self.free + self.calibrated + self.missed
    }
}
