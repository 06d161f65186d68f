"""Names of functions that act on each element alone, and of those that ask about a tensor and not about its elements.

Subclasses that answer functions by name (`nested`, `masked`) share these.
"""

# Functions of elements; ones in place end in an underscore beside these.
ELEMENTWISE = frozenset(
    """
    abs absolute acos acosh add addcdiv addcmul alpha_dropout angle arccos arccosh arcsin arcsinh arctan arctan2
    arctanh asin asinh atan atan2 atanh bernoulli bfloat16 bitwise_and bitwise_left_shift bitwise_not bitwise_or
    bitwise_right_shift bitwise_xor bool byte cdouble ceil celu cfloat char clamp clamp_max clamp_min clip clone
    conj conj_physical copy copysign cos cosh deg2rad detach digamma div divide double dropout elu empty_like eq erf
    erfc erfinv exp exp2 expm1 exponential feature_alpha_dropout fill fix float float_power floor floor_divide fmax
    fmin fmod frac full_like gcd ge gelu greater greater_equal gt half hardshrink hardsigmoid hardswish hardtanh
    heaviside hypot i0 igamma igammac imag int isclose isfinite isinf isnan isneginf isposinf isreal lcm ldexp le
    leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_normal logaddexp logaddexp2 logical_and
    logical_not logical_or logical_xor logit logsigmoid long lt masked_fill maximum minimum mish mul multiply
    mvlgamma nan_to_num ne neg negative nextafter normal not_equal ones_like polygamma positive pow rad2deg
    rand_like randint_like randn_like random real reciprocal relu relu6 remainder round rrelu rsqrt rsub selu sgn
    short sigmoid sign signbit silu sin sinc sinh softplus softshrink softsign special_erf special_expit
    special_log_ndtr special_ndtr sqrt square sub subtract tan tanh tanhshrink threshold true_divide trunc type
    uniform view_as where xlog1py xlogy zero zeros_like __abs__ __add__ __and__ __eq__ __floordiv__ __ge__ __gt__
    __iadd__ __imul__ __invert__ __isub__ __itruediv__ __le__ __lshift__ __lt__ __mod__ __mul__ __ne__ __neg__
    __or__ __pow__ __radd__ __rfloordiv__ __rmod__ __rmul__ __rpow__ __rshift__ __rsub__ __rtruediv__ __sub__
    __truediv__ __xor__
    """.split()
)

# Asked of the tensor below as it is: of its dtype, device, memory and place in the autograd graph.
ABOUT = frozenset(
    """
    data_ptr device dtype element_size get_device grad_dtype grad_fn is_complex is_conj is_cpu is_cuda
    is_floating_point is_inference is_leaf is_meta is_mkldnn is_mps is_neg is_quantized is_shared is_signed
    is_sparse is_sparse_csr is_xpu item itemsize name nbytes output_nr register_hook
    register_post_accumulate_grad_hook requires_grad requires_grad_ retain_grad retains_grad storage_offset
    untyped_storage volatile __bool__ __float__ __get__ __hash__ __int__ __set__ _backward_hooks _base _grad_fn
    _is_view _version
    """.split()
)
