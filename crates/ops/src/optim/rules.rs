//! What one step of each optimizer does to one element. Numbers are lr, the number of this step, and what a rule adds.
//!
//! Names of hyper-parameters and states are those of torch's and OneFlow's constructors and state dictionaries.

use oneflow_kernels_prim::{Lanes, MAX_SCALARS, MAX_STATES, Rule, UpdateFormula};

/// Every rule, for registration and for tests.
pub static RULES: [&Rule; 18] = [
    &COPY,
    &SGD,
    &SGD_MOMENTUM,
    &ADAM,
    &ADAM_AMSGRAD,
    &NADAM,
    &RADAM,
    &ADAMAX,
    &ADADELTA,
    &ADAGRAD,
    &RMSPROP,
    &RMSPROP_MOMENTUM,
    &RMSPROP_CENTERED,
    &RMSPROP_CENTERED_MOMENTUM,
    &RPROP,
    &ASGD,
    &LAMB,
    &FTRL,
];

/// Numbers given, padded with zeros.
#[inline(always)]
fn pad<L: Lanes, const N: usize>(v: [L; N]) -> [L; MAX_SCALARS] {
    let mut all = [L::splat(0.0); MAX_SCALARS];
    let mut k = 0;
    while k < N {
        all[k] = v[k];
        k += 1;
    }
    all
}

#[inline(always)]
fn one<L: Lanes>() -> L {
    L::splat(1.0)
}

/// `a + w (b - a)`.
#[inline(always)]
fn lerp<L: Lanes>(a: L, b: L, w: L) -> L {
    w.fma(b - a, a)
}

/// States given, padded with zeros.
#[inline(always)]
fn states<L: Lanes, const N: usize>((p, s): (L, [L; N])) -> (L, [L; MAX_STATES]) {
    let mut all = [L::splat(0.0); MAX_STATES];
    all[..N].copy_from_slice(&s);
    (p, all)
}

/// A rule: names of its hyper-parameters and numbers, the constants made of them, and the step over parameter, gradient,
/// states and constants, which gives the new parameter and states.
macro_rules! rule {
    ($(#[$doc:meta])* $name:ident = $text:literal, $h:tt, $x:tt => $c:tt $scalars:expr; |$p:ident, $g:ident, $s:tt| $body:expr) => {
        $(#[$doc])*
        pub static $name: Rule = {
            struct F;
            impl UpdateFormula for F {
                #[inline(always)]
                fn scalars<L: Lanes>(h: &[L], x: &[L]) -> [L; MAX_SCALARS] {
                    rule!(@bind h $h);
                    rule!(@bind x $x);
                    pad::<L, _>($scalars)
                }
                #[inline(always)]
                fn step<L: Lanes>($p: L, $g: L, s: [L; MAX_STATES], c: &[L]) -> (L, [L; MAX_STATES]) {
                    rule!(@bind s $s);
                    rule!(@bind c $c);
                    states($body)
                }
            }
            Rule::new::<F>($text, rule!(@count $s), rule!(@count $h), rule!(@count $x))
        };
    };
    (@bind $from:ident [$($name:ident),*]) => {
        let mut values = $from.iter().copied();
        $(let $name = values.next().unwrap_or(L::splat(0.0));)*
        let _ = values.next();
    };
    (@count [$($name:ident),*]) => {{
        const NAMES: &[&str] = &[$(stringify!($name)),*];
        NAMES.len()
    }};
}

rule! {
    /// No optimizer: the tensor becomes the other one, in its own dtype. For copies of many tensors in few launches.
    COPY = "copy", [], [] => [] [];
    |_p, g, []| (g, [])
}

rule! {
    /// torch's SGD without momentum.
    SGD = "sgd", [weight_decay], [lr] => [wd, rate] [weight_decay, -lr];
    |p, g, []| (rate.fma(wd.fma(p, g), p), [])
}

rule! {
    /// torch's SGD with momentum. On the first step the buffer's content is arbitrary and becomes the gradient.
    SGD_MOMENTUM = "sgd_momentum", [weight_decay, momentum, dampening, nesterov, is_first], [lr]
    => [wd, rate, mu, keep, ahead, first] [weight_decay, -lr, momentum, one::<L>() - dampening, nesterov, is_first];
    |p, g, [buffer]| {
        let g = wd.fma(p, g);
        let b = L::select(first.is_true(), g, buffer * mu + g * keep);
        let d = L::select(ahead.is_true(), mu.fma(b, g), b);
        (rate.fma(d, p), [b])
    }
}

/// `weight_decay` as what is added to the gradient, and as what the parameter is multiplied by.
#[inline(always)]
fn decays<L: Lanes>(weight_decay: L, decoupled: L, lr: L) -> (L, L) {
    let zero = L::splat(0.0);
    let on = decoupled.is_true();
    (L::select(on, zero, weight_decay), L::select(on, one::<L>() - lr * weight_decay, one()))
}

/// What a moment is divided by, for it began at zero.
#[inline(always)]
fn bias<L: Lanes>(beta: L, step: L, corrected: L) -> L {
    L::select(corrected.is_true(), one::<L>() - beta.pow(step), one())
}

#[inline(always)]
fn adam_scalars<L: Lanes>(
    [beta1, beta2, eps, weight_decay, decoupled]: [L; 5],
    corrected: L,
    lr: L,
    step: L,
) -> [L; 7] {
    let (decay, shrink) = decays(weight_decay, decoupled, lr);
    let (bias1, bias2) = (bias(beta1, step, corrected), bias(beta2, step, corrected));
    [decay, shrink, one::<L>() - beta1, beta2, eps, -lr / bias1, bias2.rsqrt()]
}

rule! {
    /// torch's Adam, and AdamW where `decoupled`.
    ADAM = "adam", [beta1, beta2, eps, weight_decay, decoupled, corrected], [lr, step]
    => [wd, shrink, rest1, b2, e, rate, root] adam_scalars([beta1, beta2, eps, weight_decay, decoupled], corrected, lr, step);
    |p, g, [exp_avg, exp_avg_sq]| {
        let g = wd.fma(p, g);
        let m = lerp(exp_avg, g, rest1);
        let v = exp_avg_sq * b2 + (one::<L>() - b2) * g * g;
        (rate.fma(m / v.sqrt().fma(root, e), p * shrink), [m, v])
    }
}

rule! {
    /// Adam with the greatest second moment so far in the denominator.
    ADAM_AMSGRAD = "adam_amsgrad", [beta1, beta2, eps, weight_decay, decoupled, corrected], [lr, step]
    => [wd, shrink, rest1, b2, e, rate, root] adam_scalars([beta1, beta2, eps, weight_decay, decoupled], corrected, lr, step);
    |p, g, [exp_avg, exp_avg_sq, max_exp_avg_sq]| {
        let g = wd.fma(p, g);
        let m = lerp(exp_avg, g, rest1);
        let v = exp_avg_sq * b2 + (one::<L>() - b2) * g * g;
        let top = max_exp_avg_sq.maximum(v);
        (rate.fma(m / top.sqrt().fma(root, e), p * shrink), [m, v, top])
    }
}

rule! {
    /// torch's NAdam. `mu_product` is the product of the momenta up to this step.
    NADAM = "nadam", [beta1, beta2, eps, weight_decay, decoupled, momentum_decay], [lr, step, mu_product]
    => [wd, shrink, rest1, b2, e, root, rate_g, rate_m] {
        let [wd, shrink, rest1, b2, e, _, root] = adam_scalars([beta1, beta2, eps, weight_decay, decoupled], one(), lr, step);
        let mu_at = |t: L| beta1 * (one::<L>() - L::splat(0.5) * L::splat(0.96).pow(t * momentum_decay));
        let (mu, mu_next) = (mu_at(step), mu_at(step + one()));
        let product = mu_product;
        let rate_g = -lr * (one::<L>() - mu) / (one::<L>() - product);
        [wd, shrink, rest1, b2, e, root, rate_g, -lr * mu_next / (one::<L>() - product * mu_next)]
    };
    |p, g, [exp_avg, exp_avg_sq]| {
        let (p, g) = (p * shrink, wd.fma(p, g));
        let m = lerp(exp_avg, g, rest1);
        let v = exp_avg_sq * b2 + (one::<L>() - b2) * g * g;
        (p + (rate_g * g + rate_m * m) / v.sqrt().fma(root, e), [m, v])
    }
}

rule! {
    /// torch's RAdam: without the second moment while its variance is not tractable.
    RADAM = "radam", [beta1, beta2, eps, weight_decay, decoupled], [lr, step]
    => [wd, shrink, rest1, b2, e, rate, rectified, factor] {
        let [wd, shrink, rest1, b2, e, rate, root] = adam_scalars([beta1, beta2, eps, weight_decay, decoupled], one(), lr, step);
        let (two, four) = (L::splat(2.0), L::splat(4.0));
        let powered = beta2.pow(step);
        let limit = two / (one::<L>() - beta2) - one();
        let rho = limit - two * step * powered / (one::<L>() - powered);
        let rect = ((rho - four) * (rho - two) * limit / ((limit - four) * (limit - two) * rho)).sqrt();
        [wd, shrink, rest1, b2, e, rate, L::from_mask(rho.gt(L::splat(5.0))), rect / root]
    };
    |p, g, [exp_avg, exp_avg_sq]| {
        let (p, g) = (p * shrink, wd.fma(p, g));
        let m = lerp(exp_avg, g, rest1);
        let v = exp_avg_sq * b2 + (one::<L>() - b2) * g * g;
        let scale = L::select(rectified.is_true(), factor / (v.sqrt() + e), one());
        (rate.fma(m * scale, p), [m, v])
    }
}

rule! {
    /// torch's Adamax.
    ADAMAX = "adamax", [beta1, beta2, eps, weight_decay], [lr, step]
    => [wd, rest1, b2, e, rate] [weight_decay, one::<L>() - beta1, beta2, eps, -lr / (one::<L>() - beta1.pow(step))];
    |p, g, [exp_avg, exp_inf]| {
        let g = wd.fma(p, g);
        let (m, top) = (lerp(exp_avg, g, rest1), (exp_inf * b2).maximum(g.abs() + e));
        (rate.fma(m / top, p), [m, top])
    }
}

rule! {
    /// torch's Adadelta.
    ADADELTA = "adadelta", [rho, eps, weight_decay], [lr] => [wd, r, e, rate] [weight_decay, rho, eps, -lr];
    |p, g, [square_avg, acc_delta]| {
        let g = wd.fma(p, g);
        let v = square_avg * r + (one::<L>() - r) * g * g;
        let delta = (acc_delta + e).sqrt() / (v + e).sqrt() * g;
        (rate.fma(delta, p), [v, acc_delta * r + (one::<L>() - r) * delta * delta])
    }
}

rule! {
    /// torch's Adagrad.
    ADAGRAD = "adagrad", [lr_decay, eps, weight_decay], [lr, step]
    => [wd, e, rate] [weight_decay, eps, -lr / (one::<L>() + (step - one()) * lr_decay)];
    |p, g, [sum]| {
        let g = wd.fma(p, g);
        let sum = g.fma(g, sum);
        (rate.fma(g / (sum.sqrt() + e), p), [sum])
    }
}

rule! {
    /// torch's RMSprop.
    RMSPROP = "rmsprop", [alpha, eps, weight_decay, momentum], [lr]
    => [wd, a, e, rate] { let _ = momentum; [weight_decay, alpha, eps, -lr] };
    |p, g, [square_avg]| {
        let g = wd.fma(p, g);
        let v = square_avg * a + (one::<L>() - a) * g * g;
        (rate.fma(g / (v.sqrt() + e), p), [v])
    }
}

rule! {
    RMSPROP_MOMENTUM = "rmsprop_momentum", [alpha, eps, weight_decay, momentum], [lr]
    => [wd, a, e, rate, mu] [weight_decay, alpha, eps, -lr, momentum];
    |p, g, [square_avg, buffer]| {
        let g = wd.fma(p, g);
        let v = square_avg * a + (one::<L>() - a) * g * g;
        let b = mu.fma(buffer, g / (v.sqrt() + e));
        (rate.fma(b, p), [v, b])
    }
}

rule! {
    RMSPROP_CENTERED = "rmsprop_centered", [alpha, eps, weight_decay, momentum], [lr]
    => [wd, a, e, rate] { let _ = momentum; [weight_decay, alpha, eps, -lr] };
    |p, g, [square_avg, grad_avg]| {
        let g = wd.fma(p, g);
        let v = square_avg * a + (one::<L>() - a) * g * g;
        let mean = lerp(grad_avg, g, one::<L>() - a);
        (rate.fma(g / ((v - mean * mean).sqrt() + e), p), [v, mean])
    }
}

rule! {
    RMSPROP_CENTERED_MOMENTUM = "rmsprop_centered_momentum", [alpha, eps, weight_decay, momentum], [lr]
    => [wd, a, e, rate, mu] [weight_decay, alpha, eps, -lr, momentum];
    |p, g, [square_avg, grad_avg, buffer]| {
        let g = wd.fma(p, g);
        let v = square_avg * a + (one::<L>() - a) * g * g;
        let mean = lerp(grad_avg, g, one::<L>() - a);
        let b = mu.fma(buffer, g / ((v - mean * mean).sqrt() + e));
        (rate.fma(b, p), [v, mean, b])
    }
}

rule! {
    /// torch's Rprop: only the gradient's sign counts; the step grows while it stays and shrinks where it turns.
    RPROP = "rprop", [etaminus, etaplus, step_size_min, step_size_max], []
    => [minus, plus, low, high] [etaminus, etaplus, step_size_min, step_size_max];
    |p, g, [prev, step_size]| {
        let zero = L::splat(0.0);
        let product = g * prev;
        let (same, turned) = (zero.lt(product), product.lt(zero));
        let size = step_size * L::select(same, plus, L::select(turned, minus, one()));
        let size = size.maximum(low).minimum(high);
        let g = L::select(turned, zero, g);
        let move_by = L::select(zero.lt(g), size, L::select(g.lt(zero), -size, zero));
        (p - move_by, [g, size])
    }
}

rule! {
    /// torch's ASGD: gradient descent, and the average of where it has been.
    ASGD = "asgd", [lambd, weight_decay], [lr, step, eta, mu]
    => [wd, shrink, rate, share] { let _ = (lr, step); [weight_decay, one::<L>() - lambd * eta, -eta, mu] };
    |p, g, [ax]| {
        let p = rate.fma(wd.fma(p, g), p * shrink);
        (p, [L::select(share.eq(one()), p, lerp(ax, p, share))])
    }
}

rule! {
    /// The direction of OneFlow's LAMB, into the third state; the parameter moves once its norm is known. Decoupled decay is
    /// no part of the direction.
    LAMB = "lamb", [beta1, beta2, eps, weight_decay, decoupled, corrected], [lr, step]
    => [wd, b1, b2, e, root1, root2] {
        let (bias1, bias2) = (bias(beta1, step, corrected), bias(beta2, step, corrected));
        let _ = lr;
        [L::select(decoupled.is_true(), L::splat(0.0), weight_decay), beta1, beta2, eps, bias1.recip(), bias2.rsqrt()]
    };
    |p, g, [exp_avg, exp_avg_sq, direction]| {
        let _ = direction;
        let g = wd.fma(p, g);
        let m = lerp(exp_avg, g, one::<L>() - b1);
        let v = exp_avg_sq * b2 + (one::<L>() - b2) * g * g;
        (p, [m, v, m * root1 / v.sqrt().fma(root2, e)])
    }
}

rule! {
    /// OneFlow's FTRL-proximal: weight decay is part of the gradient, and the power is taken as it is given.
    FTRL = "ftrl", [weight_decay, lr_power, lambda1, lambda2, beta], [lr]
    => [wd, power, l1, l2, b, step_size] [weight_decay, lr_power, lambda1, lambda2, beta, lr];
    |p, g, [accumulate, z]| {
        let g = wd.fma(p, g);
        let total = g.fma(g, accumulate);
        let (before, after) = (accumulate.pow(power), total.pow(power));
        let z = z + g - (after - before) / step_size * p;
        let target = (l1.copysign(z) - z) / ((b + after) / step_size + l2);
        let zero = L::splat(0.0);
        (L::select(z.abs().lt(l1), zero, target), [total, z])
    }
}
