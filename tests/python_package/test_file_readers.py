"""OneFlow's readers of files and modules of pictures, on files that the tests make."""

import io
import json
import struct

import numpy as np
import oneflow
import pytest
from oneflow import nn
from PIL import Image

RNG = np.random.default_rng(0)
PICTURES = [RNG.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in ((6, 9), (8, 5), (7, 7))]


def field(number, data):
    length, n = b"", len(data)
    while n > 127:
        length, n = length + bytes([n & 127 | 128]), n >> 7
    return bytes([number << 3 | 2]) + length + bytes([n]) + data


def entry(name, kind, payload):
    return field(1, field(1, name.encode()) + field(2, field(kind, payload)))


def encoded(picture, kind="PNG"):
    out = io.BytesIO()
    Image.fromarray(picture).save(out, kind, quality=95)
    return out.getvalue()


@pytest.fixture
def folder(tmp_path):
    for part in range(2):
        records = b""
        for i in range(6):
            n = 6 * part + i
            record = entry("label", 5, field(1, bytes([n])))
            record += entry("numbers", 2, field(1, np.arange(n % 3 + 1, dtype=np.float32).tobytes()))
            record += entry("picture", 1, field(1, encoded(PICTURES[n % 3])))
            records += struct.pack("<q", len(record)) + record
        (tmp_path / f"part-0000{part}").write_bytes(records)
    return tmp_path


def reader(folder, **options):
    return nn.OFRecordReader(str(folder), data_part_num=2, part_name_suffix_length=5, **options)


@pytest.mark.parametrize("shuffled", [False, True])
def test_every_epoch_has_each_record_once(folder, shuffled):
    records = reader(folder, batch_size=4, random_shuffle=shuffled, random_seed=1)
    label = nn.OFRecordRawDecoder("label", shape=(), dtype=oneflow.int32)
    epochs = [[n for _ in range(3) for n in label(records()).tolist()] for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 2
    assert (epochs[0] != epochs[1]) == shuffled


def test_decoders_of_numbers_and_bytes(folder):
    records = reader(folder, batch_size=3)()
    numbers = nn.OFRecordRawDecoder("numbers", shape=(2,), dtype=oneflow.float32, truncate=True)(records)
    np.testing.assert_array_equal(numbers.numpy(), [[0, 0], [0, 1], [0, 1]])
    raw = nn.OFRecordBytesDecoder("picture")(records)
    assert bytes(raw[1].numpy()) == encoded(PICTURES[1])
    with pytest.raises(ValueError, match="has 1 values, expected 2"):
        nn.OFRecordRawDecoder("numbers", shape=(2,), dtype=oneflow.float32)(records)
    with pytest.raises(ValueError, match="no feature 'age'"):
        nn.OFRecordRawDecoder("age", shape=(), dtype=oneflow.int32)(records)
    with pytest.raises(TypeError, match="OFRecordReader"):
        nn.OFRecordRawDecoder("label", shape=(), dtype=oneflow.int32)(numbers)


@pytest.mark.parametrize("space", ["RGB", "BGR", "GRAY"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_pictures_are_those_of_another_decoder(space, kind):
    buffer = nn.TensorBuffer(oneflow.tensor(np.frombuffer(encoded(p, kind), np.uint8).copy()) for p in PICTURES)
    for ours, picture in zip(nn.image.decode(color_space=space)(buffer), PICTURES, strict=True):
        theirs = Image.open(io.BytesIO(encoded(picture, kind)))
        theirs = np.asarray(theirs.convert("L"))[..., None] if space == "GRAY" else np.asarray(theirs.convert("RGB"))
        theirs = theirs[..., ::-1] if space == "BGR" else theirs
        # Decoders of JPEG round differently, and interpolate colours at the border differently; weights of grey differ.
        assert ours.shape == theirs.shape
        difference = np.abs(ours.numpy().astype(int) - theirs.astype(int))
        assert np.median(difference) <= (0 if (kind, space != "GRAY") == ("PNG", True) else 6)


def test_pictures_of_records_become_a_batch(folder):
    records = reader(folder, batch_size=3)()
    pictures = nn.OFRecordImageDecoder("picture", color_space="RGB")(records)
    assert [p.shape for p in pictures] == [p.shape for p in PICTURES]
    _, scale, size = nn.image.Resize(target_size=8, keep_aspect_ratio=True)(pictures)
    assert size.tolist() == [[12, 8], [8, 13], [8, 8]]
    np.testing.assert_allclose(scale[2].numpy(), 8 / 7, rtol=1e-6)
    mirror = oneflow.tensor([1, 0, 1], dtype=oneflow.int8)
    batch = nn.CropMirrorNormalize(crop_h=6, crop_w=4, mean=[1.0, 2.0, 3.0], std=[4.0])(pictures, mirror)
    part = PICTURES[0][0:6, 2:6][:, ::-1].astype(np.float32)
    np.testing.assert_allclose(batch[0].numpy(), ((part - [1, 2, 3]) / 4).transpose(2, 0, 1), rtol=1e-6)
    assert batch.shape == (3, 3, 6, 4)
    crops = nn.OFRecordImageDecoderRandomCrop("picture", random_seed=3)(records)
    assert all(0 < c.shape[0] <= p.shape[0] for c, p in zip(crops, PICTURES, strict=True))


def test_flip_normalize_align_and_fixed_sizes():
    pictures = nn.TensorBuffer(oneflow.tensor(p.astype(np.float32)) for p in PICTURES)
    flipped = nn.image.flip()(pictures, oneflow.tensor([1, 2, 3], dtype=oneflow.int8))
    for found, picture, at in zip(flipped, PICTURES, (np.s_[:, ::-1], np.s_[::-1], np.s_[::-1, ::-1]), strict=True):
        np.testing.assert_array_equal(found.numpy(), picture[at])
    normal = nn.image.normalize(std=[2.0, 2.0, 4.0], mean=[1.0, 2.0, 3.0])(pictures)
    np.testing.assert_allclose(normal[1].numpy(), (PICTURES[1] - [1.0, 2.0, 3.0]) / [2.0, 2.0, 4.0], rtol=1e-6)
    batch = nn.image.batch_align(shape=(16, 16, 3), dtype=oneflow.float32, alignment=4)(pictures)
    assert batch.shape == (3, 8, 12, 3)
    np.testing.assert_array_equal(batch[2, :7, :7].numpy(), PICTURES[2])
    assert batch[2, 7:].sum() == 0
    fixed, _, size = nn.image.Resize(target_size=(4, 6), dtype=oneflow.float32)(pictures)
    assert (fixed.shape, fixed.dtype, size) == ((3, 6, 4, 3), oneflow.float32, None)


@pytest.mark.parametrize("data", [b"", b"\xff\xd8\xff", encoded(PICTURES[0])[:40], bytes(100)])
def test_what_is_no_picture_is_an_error(data):
    with pytest.raises(ValueError, match="no JPEG or PNG"):
        oneflow._oneflow._decode_image(data, "rgb")


def test_coin_flip_is_reproducible_and_follows_its_probability():
    flips = nn.CoinFlip(batch_size=4000, random_seed=7, probability=0.25)
    first, second = flips(), flips()
    assert first.dtype == oneflow.int8 and abs(first.float().mean().item() - 0.25) < 0.03
    assert not oneflow.equal(first, second)
    assert oneflow.equal(first, nn.CoinFlip(batch_size=4000, random_seed=7, probability=0.25)())
    placed = nn.CoinFlip(2, placement=oneflow.placement("cpu", [0]), sbp=oneflow.sbp.broadcast)()
    assert placed.is_global


def test_raw_records_of_several_files(tmp_path):
    values = np.arange(30, dtype=np.float32).reshape(10, 3)
    values[:4].tofile(tmp_path / "a")
    values[4:].tofile(tmp_path / "b")
    files = [str(tmp_path / "a"), str(tmp_path / "b")]
    raw = nn.RawReader(files, (3,), oneflow.float32, batch_size=5, random_shuffle=False)
    np.testing.assert_array_equal(np.concatenate([raw().numpy(), raw().numpy()]), values)
    shuffled = nn.RawReader(files, (3,), oneflow.float32, batch_size=10, random_seed=2)().numpy()
    np.testing.assert_array_equal(np.sort(shuffled[:, 0]), values[:, 0])
    with pytest.raises(ValueError, match="no whole number of records"):
        nn.RawReader(files, (7,), oneflow.float32, batch_size=1)


def test_coco_groups_wide_and_high_pictures(tmp_path):
    content, box_of = {"images": [], "annotations": [], "categories": [{"id": 10}, {"id": 3}]}, {}
    for i, picture in enumerate([PICTURES[0], PICTURES[1], PICTURES[0], PICTURES[1], PICTURES[2]]):
        (tmp_path / f"{i}.png").write_bytes(encoded(picture))
        height, width = picture.shape[:2]
        content["images"].append({"id": i, "file_name": f"{i}.png", "height": height, "width": width})
        if i < 4:
            outline = [[0, 0, 1, 0, 1, 1]] * (i + 1)
            one = {"image_id": i, "category_id": 10, "bbox": [1, 2, 3, 4], "segmentation": outline}
            content["annotations"].append(one)
            # Of what reaches over a border the part inside counts; what lies outside is no object.
            box_of[i] = [1, 2, min(3, width - 1), min(5, height - 1)]
            content["annotations"].append(one | {"bbox": [width, 0, 5, 5]})
    (tmp_path / "instances.json").write_text(json.dumps(content))
    coco = nn.COCOReader(str(tmp_path / "instances.json"), str(tmp_path), batch_size=2, random_seed=0)
    seen = []
    for _ in range(2):
        pictures, ids, sizes, boxes, labels, points, ends = coco()
        assert len({height > width for height, width in sizes.tolist()}) == 1
        for i, picture, box, label, point, end in zip(ids.tolist(), pictures, boxes, labels, points, ends, strict=True):
            assert bytes(picture.numpy()) == encoded(PICTURES[i % 2])
            assert (box.tolist(), label.tolist()) == ([box_of[i]], [2])
            assert point.shape == end.shape[:1] + (2,) and end[-1].tolist() == [2, i, 0]
            seen.append(i)
    assert sorted(seen) == [0, 1, 2, 3]


def test_windows_of_indexed_tokens_and_their_splits(tmp_path):
    (tmp_path / "text.bin").write_bytes(bytes(range(41)))
    header = b"MMIDIDX\0\0" + struct.pack("<qBqq", 1, 1, 1, 2)
    (tmp_path / "text.idx").write_bytes(header + struct.pack("<iqqq", 41, 0, 0, 1))
    prefix = str(tmp_path / "text")
    both = []
    for index in (0, 1):
        tokens = nn.GPTIndexedBinDataReader(prefix, 4, 10, 5, split_sizes=[1, 1], split_index=index, random_seed=4)
        batch = tokens()
        assert (batch.diff() == 1).all()
        both.append(sorted(batch[:, 0].tolist()))
    assert both == [[0, 4, 8, 12, 16], [20, 24, 28, 32, 36]]


def test_tensor_buffers_come_of_tensors_and_go_back():
    x = oneflow.arange(24.0).reshape(2, 3, 4)
    buffer = oneflow.tensor_to_tensor_buffer(x, instance_dims=2)
    assert len(buffer) == 2 and buffer.numpy()[1].shape == (3, 4)
    assert oneflow.equal(oneflow.tensor_buffer_to_tensor(buffer, oneflow.float32, (3, 4)), x)
    with pytest.raises(RuntimeError, match="expected tensors of shape"):
        oneflow.tensor_buffer_to_tensor(oneflow.gen_tensor_buffer((2,), [(1,), (2,)], [0, 1]), oneflow.float32, (1,))
