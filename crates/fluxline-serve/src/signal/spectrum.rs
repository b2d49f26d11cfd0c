//! The power spectrum of samples: a Hann window, then a fast Fourier transform of radix 2.

use std::f64::consts::TAU;

/// Most samples of a transform.
const SAMPLES_MAX: usize = 8192;
/// Fewest samples that have a spectrum.
const SAMPLES_MIN: usize = 16;
/// Least power that is shown \[dB\].
const FLOOR_DB: f64 = -200.0;

/// A complex number.
#[derive(Clone, Copy, Debug, Default)]
struct Complex {
    re: f64,
    im: f64,
}

impl Complex {
    fn plus(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }

    fn minus(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }

    fn times(self, other: Complex) -> Complex {
        Complex {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    fn turned(angle: f64) -> Complex {
        Complex { re: angle.cos(), im: angle.sin() }
    }
}

/// Returns the power of each frequency from 0 to half the sample rate, without the mean. A sine of
/// amplitude a between two samples has the power a² at its frequency.
///
/// It takes the largest power of two of the samples, at most 8192 of them; `None`: there are fewer
/// than 16, or one is not a number.
pub fn power(samples: &[f64]) -> Option<Vec<f64>> {
    let count = match samples.len().min(SAMPLES_MAX) {
        0..SAMPLES_MIN => return None,
        most => 1 << most.ilog2(),
    };
    let samples = &samples[..count];
    if samples.iter().any(|sample| !sample.is_finite()) {
        return None;
    }
    let mean = samples.iter().sum::<f64>() / count as f64;
    let window = |at: usize| 0.5 - 0.5 * (TAU * at as f64 / count as f64).cos();
    let windowed = samples.iter().enumerate();
    let mut values: Vec<Complex> = windowed
        .map(|(at, sample)| Complex { re: (sample - mean) * window(at), im: 0.0 })
        .collect();
    transform(&mut values);
    let sum: f64 = (0..count).map(window).sum();
    let power = |value: &Complex| {
        let amplitude = 2.0 * value.re.hypot(value.im) / sum;
        amplitude * amplitude
    };
    Some(values[..=count / 2].iter().map(power).collect())
}

/// Returns a power in decibels relative to an amplitude of 1.
pub fn decibels(power: f64) -> f64 {
    if power > 0.0 { (10.0 * power.log10()).max(FLOOR_DB) } else { FLOOR_DB }
}

/// Transforms in place; the number of values is a power of two.
fn transform(values: &mut [Complex]) {
    let count = values.len();
    let bits = count.ilog2();
    for at in 0..count {
        let other = at.reverse_bits() >> (usize::BITS - bits);
        if at < other {
            values.swap(at, other);
        }
    }
    let mut half = 1;
    while half < count {
        let step = Complex::turned(-TAU / (2 * half) as f64);
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            let mut factor = Complex { re: 1.0, im: 0.0 };
            for (a, b) in low.iter_mut().zip(high) {
                let turned = b.times(factor);
                (*a, *b) = (a.plus(turned), a.minus(turned));
                factor = factor.times(step);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use fluxline_core::random::{Draw, test_seed};

    use super::*;

    /// The sum of the definition.
    fn obvious(values: &[Complex]) -> Vec<Complex> {
        let count = values.len();
        let of = |frequency: usize| {
            let terms = values.iter().enumerate().map(|(at, value)| {
                let angle = -TAU * (at * frequency % count) as f64 / count as f64;
                value.times(Complex::turned(angle))
            });
            terms.fold(Complex::default(), Complex::plus)
        };
        (0..count).map(of).collect()
    }

    #[test]
    fn the_transform_is_the_sum_of_its_definition() {
        let mut random = Draw::new(test_seed!(31));
        for bits in 1..9 {
            let mut draw = || random.below(2_000) as f64 / 1_000.0 - 1.0;
            let values: Vec<Complex> =
                (0..1 << bits).map(|_| Complex { re: draw(), im: draw() }).collect();
            let mut fast = values.clone();
            transform(&mut fast);
            for (fast, slow) in fast.iter().zip(obvious(&values)) {
                let difference = fast.minus(slow);
                assert!(difference.re.hypot(difference.im) < 1e-9, "{bits}: {fast:?} {slow:?}");
            }
        }
    }

    #[test]
    fn a_sine_has_its_power_at_its_frequency_and_the_mean_has_none() {
        let sine = |at: usize| 1e4 + 10.0 * (TAU * 100.0 * at as f64 / 1024.0).sin();
        let samples: Vec<f64> = (0..1500).map(sine).collect();
        let power = power(&samples).unwrap();
        assert_eq!(power.len(), 513);
        assert!((decibels(power[100]) - 20.0).abs() < 0.01, "{}", decibels(power[100]));
        for (frequency, power) in power.iter().enumerate() {
            let near = frequency.abs_diff(100) <= 1;
            assert!(near || decibels(*power) < -100.0, "{frequency}: {}", decibels(*power));
        }
    }

    #[test]
    fn too_few_samples_and_those_that_are_no_numbers_have_no_spectrum() {
        assert_eq!(power(&[]), None);
        assert_eq!(power(&[1.0; 15]), None);
        assert_eq!(power(&[f64::NAN; 64]), None);
        assert_eq!(power(&[3.0; 16]).unwrap(), [0.0; 9]);
        assert_eq!(power(&vec![0.5; 20_000]).unwrap().len(), 4097);
        assert_eq!(decibels(0.0), FLOOR_DB);
    }
}
