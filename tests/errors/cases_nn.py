"""Bad input of layers and losses: (op, kind) -> what is called, and words that the message must have."""

from __future__ import annotations

from errors.builders import classes, f, i


def F(fw):
    return fw.nn.functional


CASES = {
    # ---- convolution
    ("conv2d", "channels"): (
        lambda fw: F(fw).conv2d(f(fw, 1, 3, 5, 5), f(fw, 4, 2, 3, 3)),
        ["[4, 2, 3, 3]", "[1, 3, 5, 5]"],
    ),
    ("conv2d", "kernel larger than input"): (
        lambda fw: F(fw).conv2d(f(fw, 1, 1, 2, 2), f(fw, 1, 1, 3, 3)),
        ["2 x 2", "3 x 3"],
    ),
    ("conv2d", "bias"): (lambda fw: F(fw).conv2d(f(fw, 1, 1, 3, 3), f(fw, 2, 1, 3, 3), f(fw, 3)), ["bias", "[3]"]),
    ("conv2d", "ranks"): (lambda fw: F(fw).conv2d(f(fw, 3, 3), f(fw, 1, 1, 3, 3)), ["conv2d", "[3, 3]"]),
    ("conv2d", "stride zero"): (lambda fw: F(fw).conv2d(f(fw, 1, 1, 3, 3), f(fw, 1, 1, 3, 3), stride=0), ["stride"]),
    ("conv2d", "negative padding"): (
        lambda fw: F(fw).conv2d(f(fw, 1, 1, 3, 3), f(fw, 1, 1, 3, 3), padding=-1),
        ["padding"],
    ),
    ("conv2d", "dilation zero"): (
        lambda fw: F(fw).conv2d(f(fw, 1, 1, 3, 3), f(fw, 1, 1, 3, 3), dilation=0),
        ["dilation"],
    ),
    ("conv2d", "groups"): (lambda fw: F(fw).conv2d(f(fw, 1, 4, 3, 3), f(fw, 3, 2, 3, 3), groups=2), ["groups"]),
    ("conv2d", "no groups"): (lambda fw: F(fw).conv2d(f(fw, 1, 4, 3, 3), f(fw, 3, 4, 3, 3), groups=0), ["groups"]),
    ("conv2d", "same padding with stride"): (
        lambda fw: F(fw).conv2d(f(fw, 1, 1, 3, 3), f(fw, 1, 1, 3, 3), stride=2, padding="same"),
        ["padding='same'"],
    ),
    ("conv2d", "padding's name"): (
        lambda fw: F(fw).conv2d(f(fw, 1, 1, 3, 3), f(fw, 1, 1, 3, 3), padding="full"),
        ["padding", "full"],
    ),
    ("conv2d", "dtypes"): (
        lambda fw: F(fw).conv2d(f(fw, 1, 1, 3, 3), f(fw, 1, 1, 3, 3, dtype=fw.float64)),
        ["Float", "Double"],
    ),
    ("conv1d", "ranks"): (lambda fw: F(fw).conv1d(f(fw, 1, 1, 3, 3), f(fw, 1, 1, 3)), ["conv1d", "[1, 1, 3, 3]"]),
    ("conv1d", "stride's length"): (lambda fw: F(fw).conv1d(f(fw, 1, 1, 3), f(fw, 1, 1, 3), stride=(1, 1)), ["stride"]),
    ("conv3d", "channels"): (lambda fw: F(fw).conv3d(f(fw, 1, 3, 4, 4, 4), f(fw, 4, 2, 3, 3, 3)), ["[4, 2, 3, 3, 3]"]),
    ("conv_transpose2d", "channels"): (
        lambda fw: F(fw).conv_transpose2d(f(fw, 1, 3, 4, 4), f(fw, 2, 3, 3, 3)),
        ["[2, 3, 3, 3]"],
    ),
    ("conv_transpose2d", "output padding"): (
        lambda fw: F(fw).conv_transpose2d(f(fw, 1, 1, 4, 4), f(fw, 1, 1, 3, 3), output_padding=2),
        ["output padding"],
    ),
    ("Conv2d", "groups"): (lambda fw: fw.nn.Conv2d(3, 4, 3, groups=2), ["in_channels", "groups"]),
    ("Conv2d", "padding mode"): (lambda fw: fw.nn.Conv2d(3, 4, 3, padding_mode="mirror"), ["padding_mode"]),
    ("Conv2d", "padding's name"): (lambda fw: fw.nn.Conv2d(3, 4, 3, padding="full"), ["padding"]),
    ("unfold", "kernel"): (lambda fw: F(fw).unfold(f(fw, 1, 1, 2, 2), 3), ["(2, 2)", "(3, 3)"]),
    ("fold", "blocks"): (lambda fw: F(fw).fold(f(fw, 1, 4, 3), (3, 3), 2), ["4", "3"]),
    # ---- pooling
    ("max_pool2d", "kernel larger than input"): (lambda fw: F(fw).max_pool2d(f(fw, 1, 1, 2, 2), 3), ["1x0x0"]),
    ("max_pool2d", "stride zero"): (lambda fw: F(fw).max_pool2d(f(fw, 1, 1, 4, 4), 2, stride=0), ["stride"]),
    ("max_pool2d", "padding"): (lambda fw: F(fw).max_pool2d(f(fw, 1, 1, 4, 4), 2, padding=2), ["pad"]),
    ("max_pool2d", "ranks"): (lambda fw: F(fw).max_pool2d(f(fw, 4, 4), 2), ["max_pool2d"]),
    ("max_pool2d", "kernel's length"): (lambda fw: F(fw).max_pool2d(f(fw, 1, 1, 4, 4), (2, 2, 2)), ["kernel_size"]),
    ("max_pool1d", "overflow"): (
        lambda fw: F(fw).max_pool1d(f(fw, 1, 1, 4), 2**62, stride=1, dilation=2**40),
        [],
    ),
    ("avg_pool2d", "divisor zero"): (
        lambda fw: F(fw).avg_pool2d(f(fw, 1, 1, 4, 4), 2, divisor_override=0),
        ["divisor"],
    ),
    ("avg_pool2d", "kernel zero"): (lambda fw: F(fw).avg_pool2d(f(fw, 1, 1, 4, 4), 0), ["kernel"]),
    ("avg_pool2d", "negative padding"): (lambda fw: F(fw).avg_pool2d(f(fw, 1, 1, 4, 4), 2, padding=-1), ["pad"]),
    ("adaptive_avg_pool2d", "negative size"): (
        lambda fw: F(fw).adaptive_avg_pool2d(f(fw, 1, 1, 4, 4), -1),
        ["output_size"],
    ),
    ("adaptive_avg_pool2d", "empty input"): (
        lambda fw: F(fw).adaptive_avg_pool2d(f(fw, 1, 1, 0, 4), 2),
        ["[1, 1, 0, 4]"],
    ),
    ("max_unpool2d", "indices' shape"): (
        lambda fw: F(fw).max_unpool2d(f(fw, 1, 1, 2, 2), fw.zeros(1, 1, 3, 3, dtype=fw.int64), 2),
        ["[1, 1, 2, 2]"],
    ),
    ("max_unpool2d", "index out of range"): (
        lambda fw: F(fw).max_unpool2d(f(fw, 1, 1, 1, 1), fw.full((1, 1, 1, 1), 99), 2),
        ["99"],
    ),
    # ---- norms
    ("batch_norm", "one value a channel"): (
        lambda fw: F(fw).batch_norm(f(fw, 1, 3), None, None, training=True),
        ["[1, 3]"],
    ),
    ("batch_norm", "no statistics"): (lambda fw: F(fw).batch_norm(f(fw, 2, 3), None, None), ["running_mean"]),
    ("batch_norm", "weight's size"): (
        lambda fw: F(fw).batch_norm(f(fw, 2, 3), f(fw, 3), f(fw, 3), f(fw, 4)),
        ["weight", "3", "4"],
    ),
    ("batch_norm", "mean's size"): (
        lambda fw: F(fw).batch_norm(f(fw, 2, 3), f(fw, 4), f(fw, 4)),
        ["running_mean", "3", "4"],
    ),
    ("BatchNorm2d", "ranks"): (lambda fw: fw.nn.BatchNorm2d(3)(f(fw, 2, 3)), ["4D", "2D"]),
    ("BatchNorm1d", "ranks"): (lambda fw: fw.nn.BatchNorm1d(3)(f(fw, 2, 3, 4, 4)), ["2D or 3D", "4D"]),
    ("group_norm", "channels"): (lambda fw: F(fw).group_norm(f(fw, 2, 3, 4), 2), ["[2, 3, 4]", "2"]),
    ("group_norm", "weight's size"): (lambda fw: F(fw).group_norm(f(fw, 2, 4, 4), 2, f(fw, 3)), ["weight", "[3]"]),
    ("GroupNorm", "channels"): (lambda fw: fw.nn.GroupNorm(2, 3), ["num_channels", "num_groups"]),
    ("instance_norm", "one value a channel"): (lambda fw: F(fw).instance_norm(f(fw, 2, 3, 1)), ["[2, 3, 1]"]),
    ("layer_norm", "weight's shape"): (lambda fw: F(fw).layer_norm(f(fw, 2, 3), (3,), f(fw, 2)), ["weight", "[2]"]),
    ("layer_norm", "no shape"): (lambda fw: F(fw).layer_norm(f(fw, 2, 3), ()), ["normalized_shape"]),
    ("layer_norm", "bias's shape"): (lambda fw: F(fw).layer_norm(f(fw, 2, 3), (3,), None, f(fw, 2)), ["bias", "[2]"]),
    ("rms_norm", "shape"): (lambda fw: F(fw).rms_norm(f(fw, 2, 3), (2,)), ["[2]", "[2, 3]"]),
    ("local_response_norm", "ranks"): (lambda fw: F(fw).local_response_norm(f(fw, 2, 3), 2), ["2"]),
    ("normalize", "dim out of range"): (lambda fw: F(fw).normalize(f(fw, 2, 3), dim=4), ["4"]),
    # ---- losses
    ("cross_entropy", "floats as classes"): (lambda fw: F(fw).cross_entropy(f(fw, 2, 3), f(fw, 2)), []),
    ("cross_entropy", "probabilities' shape"): (lambda fw: F(fw).cross_entropy(f(fw, 2, 3), f(fw, 2, 4)), ["2", "4"]),
    ("cross_entropy", "weight's size"): (
        lambda fw: F(fw).cross_entropy(f(fw, 2, 3), classes(fw, 2), f(fw, 4)),
        ["weight", "3"],
    ),
    ("cross_entropy", "smoothing"): (
        lambda fw: F(fw).cross_entropy(f(fw, 2, 3), classes(fw, 2), label_smoothing=2.0),
        ["label_smoothing", "2"],
    ),
    ("cross_entropy", "reduction"): (
        lambda fw: F(fw).cross_entropy(f(fw, 2, 3), classes(fw, 2), reduction="some"),
        ["reduction", "some"],
    ),
    ("nll_loss", "class out of range"): (lambda fw: F(fw).nll_loss(f(fw, 2, 3), i(fw, 0, 7)), ["7"]),
    ("nll_loss", "rows"): (lambda fw: F(fw).nll_loss(f(fw, 2, 3), i(fw, 0)), ["2", "1"]),
    ("nll_loss", "floats as classes"): (lambda fw: F(fw).nll_loss(f(fw, 2, 3), f(fw, 2)), ["Long"]),
    ("mse_loss", "shapes"): (lambda fw: F(fw).mse_loss(f(fw, 2, 3), f(fw, 4)), ["3", "4"]),
    ("mse_loss", "reduction"): (lambda fw: F(fw).mse_loss(f(fw, 2), f(fw, 2), reduction="some"), ["some"]),
    ("l1_loss", "shapes"): (lambda fw: F(fw).l1_loss(f(fw, 2, 3), f(fw, 4)), ["3", "4"]),
    ("huber_loss", "delta"): (lambda fw: F(fw).huber_loss(f(fw, 2), f(fw, 2), delta=-1.0), ["delta"]),
    ("smooth_l1_loss", "beta"): (lambda fw: F(fw).smooth_l1_loss(f(fw, 2), f(fw, 2), beta=-1.0), ["beta"]),
    ("binary_cross_entropy", "shapes"): (
        lambda fw: F(fw).binary_cross_entropy(f(fw, 2, 3), f(fw, 2)),
        ["[2]", "[2, 3]"],
    ),
    ("binary_cross_entropy_with_logits", "shapes"): (
        lambda fw: F(fw).binary_cross_entropy_with_logits(f(fw, 2, 3), f(fw, 2)),
        ["[2]", "[2, 3]"],
    ),
    ("kl_div", "reduction"): (lambda fw: F(fw).kl_div(f(fw, 2), f(fw, 2), reduction="some"), ["some"]),
    ("poisson_nll_loss", "reduction"): (
        lambda fw: F(fw).poisson_nll_loss(f(fw, 2), f(fw, 2), reduction="some"),
        ["some"],
    ),
    ("gaussian_nll_loss", "negative variance"): (
        lambda fw: F(fw).gaussian_nll_loss(f(fw, 2), f(fw, 2), -f(fw, 2)),
        ["var"],
    ),
    ("cosine_embedding_loss", "ranks"): (
        lambda fw: F(fw).cosine_embedding_loss(f(fw, 2, 3), f(fw, 2, 3), f(fw, 2, 2)),
        ["target"],
    ),
    ("margin_ranking_loss", "ranks"): (
        lambda fw: F(fw).margin_ranking_loss(f(fw, 2), f(fw, 2), f(fw, 2, 1)),
        ["[2, 1]"],
    ),
    ("multi_margin_loss", "p"): (lambda fw: F(fw).multi_margin_loss(f(fw, 2, 3), classes(fw, 2), p=3), ["p"]),
    ("multilabel_margin_loss", "shapes"): (
        lambda fw: F(fw).multilabel_margin_loss(f(fw, 2, 3), fw.zeros(2, 2, dtype=fw.int64)),
        ["[2, 2]"],
    ),
    ("triplet_margin_loss", "ranks"): (
        lambda fw: F(fw).triplet_margin_loss(f(fw, 2, 3), f(fw, 3), f(fw, 2, 3)),
        ["2D", "1D"],
    ),
    ("ctc_loss", "lengths"): (
        lambda fw: F(fw).ctc_loss(
            f(fw, 4, 2, 3).log_softmax(2), fw.ones(2, 2, dtype=fw.int64), i(fw, 9, 9), i(fw, 2, 2)
        ),
        ["input_lengths", "4"],
    ),
    ("ctc_loss", "blank"): (
        lambda fw: F(fw).ctc_loss(
            f(fw, 4, 2, 3).log_softmax(2), fw.ones(2, 2, dtype=fw.int64), i(fw, 4, 4), i(fw, 2, 2), blank=5
        ),
        ["blank"],
    ),
    # ---- embedding, attention, recurrence
    ("embedding", "floats as indices"): (lambda fw: F(fw).embedding(f(fw, 2), f(fw, 4, 2)), ["indices", "Float"]),
    ("embedding", "weight's rank"): (lambda fw: F(fw).embedding(i(fw, 0), f(fw, 4)), ["weight"]),
    ("embedding", "padding index"): (lambda fw: F(fw).embedding(i(fw, 0), f(fw, 4, 2), padding_idx=9), ["adding_idx"]),
    ("Embedding", "padding index"): (lambda fw: fw.nn.Embedding(4, 2, padding_idx=9), ["adding_idx"]),
    ("embedding_bag", "no offsets"): (lambda fw: F(fw).embedding_bag(i(fw, 0, 1), f(fw, 4, 2)), ["offsets"]),
    ("embedding_bag", "mode"): (
        lambda fw: F(fw).embedding_bag(fw.zeros(1, 2, dtype=fw.int64), f(fw, 4, 2), mode="most"),
        ["mode"],
    ),
    ("one_hot", "class out of range"): (lambda fw: F(fw).one_hot(i(fw, 4), 3), ["num_classes"]),
    ("one_hot", "negative class"): (lambda fw: F(fw).one_hot(i(fw, -1), 3), ["non-negative"]),
    ("one_hot", "floats"): (lambda fw: F(fw).one_hot(f(fw, 2)), ["one_hot", "index"]),
    ("scaled_dot_product_attention", "features"): (
        lambda fw: F(fw).scaled_dot_product_attention(f(fw, 1, 1, 2, 4), f(fw, 1, 1, 2, 5), f(fw, 1, 1, 2, 4)),
        ["4", "5"],
    ),
    ("scaled_dot_product_attention", "mask and causal"): (
        lambda fw: F(fw).scaled_dot_product_attention(
            f(fw, 1, 1, 2, 4), f(fw, 1, 1, 2, 4), f(fw, 1, 1, 2, 4), f(fw, 2, 2), is_causal=True
        ),
        ["is_causal"],
    ),
    ("scaled_dot_product_attention", "mask of integers"): (
        lambda fw: F(fw).scaled_dot_product_attention(
            f(fw, 1, 1, 2, 4), f(fw, 1, 1, 2, 4), f(fw, 1, 1, 2, 4), fw.ones(2, 2, dtype=fw.int64)
        ),
        ["bool", "attn_mask"],
    ),
    ("scaled_dot_product_attention", "dtypes"): (
        lambda fw: F(fw).scaled_dot_product_attention(
            f(fw, 1, 1, 2, 4), f(fw, 1, 1, 2, 4, dtype=fw.float64), f(fw, 1, 1, 2, 4)
        ),
        ["dtype"],
    ),
    ("MultiheadAttention", "heads"): (lambda fw: fw.nn.MultiheadAttention(5, 2), ["embed_dim"]),
    ("MultiheadAttention", "features"): (
        lambda fw: fw.nn.MultiheadAttention(4, 2)(f(fw, 2, 1, 6), f(fw, 2, 1, 6), f(fw, 2, 1, 6)),
        ["4", "6"],
    ),
    ("LSTM", "features"): (lambda fw: fw.nn.LSTM(3, 4)(f(fw, 2, 1, 5)), ["3", "5"]),
    ("LSTM", "ranks"): (lambda fw: fw.nn.LSTM(3, 4)(f(fw, 1, 1, 2, 3)), ["2D or 3D", "4D"]),
    ("LSTM", "state's shape"): (
        lambda fw: fw.nn.LSTM(3, 4)(f(fw, 2, 1, 3), (f(fw, 1, 2, 4), f(fw, 1, 2, 4))),
        ["(1, 1, 4)", "[1, 2, 4]"],
    ),
    ("GRU", "state's shape"): (lambda fw: fw.nn.GRU(3, 4)(f(fw, 2, 1, 3), f(fw, 2, 1, 4)), ["(1, 1, 4)", "[2, 1, 4]"]),
    ("LSTM", "dropout"): (lambda fw: fw.nn.LSTM(3, 4, dropout=2.0), ["dropout"]),
    ("RNN", "nonlinearity"): (lambda fw: fw.nn.RNN(3, 4, nonlinearity="sin"), ["sin"]),
    ("RNN", "hidden size"): (lambda fw: fw.nn.RNN(3, 0), ["hidden_size"]),
    ("RNN", "layers"): (lambda fw: fw.nn.RNN(3, 4, num_layers=0), ["num_layers"]),
    ("LSTMCell", "features"): (lambda fw: fw.nn.LSTMCell(3, 4)(f(fw, 1, 5)), ["3", "5"]),
    ("pack_padded_sequence", "order"): (
        lambda fw: fw.nn.utils.rnn.pack_padded_sequence(f(fw, 3, 2, 1), i(fw, 1, 3)),
        ["lengths"],
    ),
    ("pack_padded_sequence", "zero length"): (
        lambda fw: fw.nn.utils.rnn.pack_padded_sequence(f(fw, 3, 2, 1), i(fw, 3, 0)),
        ["0"],
    ),
    ("pack_padded_sequence", "lengths"): (
        lambda fw: fw.nn.utils.rnn.pack_padded_sequence(f(fw, 3, 2, 1), i(fw, 3)),
        ["lengths", "batch_size"],
    ),
    # ---- activations, dropout, padding, resampling
    ("Dropout", "probability"): (lambda fw: fw.nn.Dropout(-0.5), ["-0.5"]),
    ("dropout2d", "probability"): (lambda fw: F(fw).dropout2d(f(fw, 1, 2, 2, 2), 1.5), ["1.5"]),
    ("alpha_dropout", "probability"): (lambda fw: F(fw).alpha_dropout(f(fw, 2), 1.5), ["1.5"]),
    ("gelu", "approximation"): (lambda fw: F(fw).gelu(f(fw, 2), approximate="some"), ["approximate"]),
    ("gelu", "integers"): (lambda fw: F(fw).gelu(i(fw, 1)), ["Long"]),
    ("glu", "odd size"): (lambda fw: F(fw).glu(f(fw, 3)), ["3"]),
    ("prelu", "weight's size"): (lambda fw: F(fw).prelu(f(fw, 2, 3), f(fw, 2)), ["2", "3"]),
    ("hardtanh", "limits"): (lambda fw: F(fw).hardtanh(i(fw, 1).to(fw.bool)), ["hardtanh", "Bool"]),
    ("log_softmax", "dim out of range"): (lambda fw: F(fw).log_softmax(f(fw, 2), 2), ["2"]),
    ("gumbel_softmax", "integers"): (lambda fw: F(fw).gumbel_softmax(i(fw, 1, 2)), []),
    ("pad", "odd length"): (lambda fw: F(fw).pad(f(fw, 2), (1, 2, 3)), ["3"]),
    ("pad", "too many"): (lambda fw: F(fw).pad(f(fw, 2), (1, 1, 1, 1)), ["4"]),
    ("pad", "mode"): (lambda fw: F(fw).pad(f(fw, 1, 1, 4), (1, 1), mode="mirror"), ["mirror"]),
    ("pad", "reflects too far"): (lambda fw: F(fw).pad(f(fw, 1, 1, 2), (3, 0), mode="reflect"), ["3", "2"]),
    ("pad", "cuts too much"): (lambda fw: F(fw).pad(f(fw, 2), (-2, -1)), ["-1"]),
    ("pad", "wraps too far"): (lambda fw: F(fw).pad(f(fw, 1, 1, 2), (3, 0), mode="circular"), []),
    ("interpolate", "size and factor"): (
        lambda fw: F(fw).interpolate(f(fw, 1, 1, 4), size=2, scale_factor=2.0),
        ["size", "scale_factor"],
    ),
    ("interpolate", "nothing"): (lambda fw: F(fw).interpolate(f(fw, 1, 1, 4)), ["size", "scale_factor"]),
    ("interpolate", "mode"): (lambda fw: F(fw).interpolate(f(fw, 1, 1, 4), size=2, mode="mirror"), ["mirror"]),
    ("interpolate", "rank and mode"): (
        lambda fw: F(fw).interpolate(f(fw, 1, 1, 4), size=2, mode="bilinear"),
        ["bilinear"],
    ),
    ("interpolate", "align corners"): (
        lambda fw: F(fw).interpolate(f(fw, 1, 1, 4), size=2, align_corners=True),
        ["align_corners"],
    ),
    ("interpolate", "size zero"): (lambda fw: F(fw).interpolate(f(fw, 1, 1, 4), size=0), ["0"]),
    ("interpolate", "size's length"): (lambda fw: F(fw).interpolate(f(fw, 1, 1, 4), size=(2, 2)), ["2"]),
    ("grid_sample", "ranks"): (lambda fw: F(fw).grid_sample(f(fw, 1, 1, 4), f(fw, 1, 2, 2, 2)), ["[1, 1, 4]"]),
    ("grid_sample", "grid's size"): (lambda fw: F(fw).grid_sample(f(fw, 1, 1, 4, 4), f(fw, 1, 2, 2, 3)), ["3"]),
    ("grid_sample", "mode"): (
        lambda fw: F(fw).grid_sample(f(fw, 1, 1, 4, 4), f(fw, 1, 2, 2, 2), mode="mirror"),
        ["mirror"],
    ),
    ("affine_grid", "theta"): (lambda fw: F(fw).affine_grid(f(fw, 1, 3, 3), (1, 1, 2, 2)), ["[1, 3, 3]"]),
    ("pixel_shuffle", "channels"): (lambda fw: F(fw).pixel_shuffle(f(fw, 1, 3, 2, 2), 2), ["3", "4"]),
    ("pixel_shuffle", "factor"): (lambda fw: F(fw).pixel_shuffle(f(fw, 1, 4, 2, 2), 0), ["0"]),
    ("pixel_unshuffle", "height"): (lambda fw: F(fw).pixel_unshuffle(f(fw, 1, 1, 3, 3), 2), ["3", "2"]),
    ("channel_shuffle", "groups"): (lambda fw: F(fw).channel_shuffle(f(fw, 1, 3, 2, 2), 2), ["3", "2"]),
    ("bilinear", "features"): (lambda fw: F(fw).bilinear(f(fw, 2, 3), f(fw, 2, 4), f(fw, 5, 3, 3)), ["4", "3"]),
    ("cosine_similarity", "shapes"): (lambda fw: F(fw).cosine_similarity(f(fw, 2, 3), f(fw, 4, 5)), ["3", "5"]),
    ("pairwise_distance", "shapes"): (lambda fw: F(fw).pairwise_distance(f(fw, 2, 3), f(fw, 2, 4)), ["3", "4"]),
    ("pdist", "ranks"): (lambda fw: F(fw).pdist(f(fw, 2)), ["pdist"]),
}
