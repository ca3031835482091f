"""Coverage of a calibration set: words rendered for it, noise, the dark, and what chance may do."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from builder.judgement import coverage
from builder.steps import coverage as step
from builder.steps.coverage import CoverageParameters
from builder.steps.step import perform
from registry.contract.engines import CoverageReport
from registry.contract.versions import DatasetRef
from tests.builder import made

CAL, VAL = DatasetRef(name="cal", version=2), DatasetRef(name="val", version=1)
WIDE, HIGH = 96, 32


def words(count: int, seed: int) -> list[made.Array]:
    """Lines of print as a recogniser takes them: float32 [1, 3, 32, width], −1 to 1, as long as the word."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        letters = "".join(generator.choice(list("abcdefghiklmnorstuv"), int(generator.integers(3, 10))))
        shade = int(generator.integers(200, 256))
        picture = Image.new("L", (16 * len(letters), HIGH), shade)
        font = ImageFont.load_default(size=int(generator.integers(16, 24)))
        ImageDraw.Draw(picture).text((3, 3), letters, fill=int(generator.integers(0, 80)), font=font)
        grey = np.asarray(picture, np.float32) / 127.5 - 1
        found.append(np.repeat(grey[np.newaxis, np.newaxis], 3, axis=1))
    return found


def covered(calibration: list[made.Array], validation: list[made.Array]) -> CoverageReport:
    ours, theirs = (
        [dict(coverage.features({"x": row})) for row in rows] for rows in (calibration, validation)
    )
    return coverage.coverage(ours, theirs, CAL, VAL)


def test_words_like_those_that_are_judged_cover_them() -> None:
    found = covered(words(120, 1), words(200, 2))
    assert {one.feature for one in found.features} == {"x level", "x spread", "x roughness", "x length.3"}
    assert not found.flagged
    assert min(one.overlap for one in found.features) > 0.7
    assert "cal@2 covers val@1" in coverage.sentence(found)


def test_noise_and_the_dark_are_flagged_by_what_is_wrong_with_them() -> None:
    generator = np.random.default_rng(3)
    validation = words(200, 2)
    levels = [(float(row.mean()), float(row.std())) for row in words(120, 1)]
    # As bright, as contrasty and as long as words are: only neighbours give it away.
    noise = [
        generator.normal(level, spread, row.shape).astype(np.float32)
        for (level, spread), row in zip(levels, words(120, 1), strict=True)
    ]
    dark = [(row + 1) * 0.1 - 1 for row in words(120, 1)]
    assert [one.feature for one in covered(noise, validation).flagged] == ["x roughness"]
    found = covered(dark, validation)
    assert {"x level", "x spread"} <= {one.feature for one in found.flagged}
    assert "x roughness" not in {one.feature for one in found.flagged}
    assert "x level 12%" in coverage.sentence(found)


def test_short_words_do_not_cover_long_ones() -> None:
    short = [row for row in words(400, 1) if row.shape[-1] <= 16 * 5]
    assert "x length.3" in {one.feature for one in covered(short, words(200, 2)).flagged}


@pytest.mark.parametrize("rows", [25, 60, 400])
def test_few_rows_of_one_distribution_are_not_flagged_for_being_few(rows: int) -> None:
    generator = np.random.default_rng(rows)
    for _ in range(100):
        ours, theirs = ([{"f": float(x)} for x in generator.normal(0, 1, rows)] for _ in range(2))
        assert not coverage.coverage(ours, theirs, CAL, VAL).flagged


def test_another_mix_of_answers_is_flagged() -> None:
    ours: list[dict[str, float | str]] = [{"answer label": "a"}] * 80 + [{"answer label": "b"}] * 20
    theirs: list[dict[str, float | str]] = [{"answer label": "b"}] * 80 + [{"answer label": "c"}] * 20
    (found,) = coverage.coverage(ours, theirs, CAL, VAL).flagged
    assert (found.feature, found.overlap) == ("answer label", pytest.approx(0.2))


def test_the_step_looks_at_inputs_and_at_the_sources_answers(tmp_path: Path, model: Path) -> None:
    rows = made.images(120)
    sets = {}
    for name, images in (
        ("rows", rows[:60]),
        ("like", rows[60:]),
        ("bright", [row + 3 for row in rows[60:]]),
    ):
        raws = [made.raw_image(row) for row in images]
        sets[name] = made.raw_set(tmp_path / name, raws, [None] * len(raws))
    parameters = CoverageParameters(
        target="ort.cpu",
        contract=made.CONTRACT,
        validation_contract=made.CONTRACT,
        dataset=CAL,
        against=VAL,
        batchable=True,
    )
    reports = {
        name: perform(
            step.STEP,
            parameters,
            {"model": model, "calibration": sets[name], "rows": sets["rows"]},
            tmp_path / f"{name}-out",
        ).report
        for name in ("like", "bright")
    }
    assert {"image level", "answer label", "answer score"} <= {
        one.feature for one in reports["like"].features
    }
    assert not reports["like"].flagged
    assert reports["bright"].flagged[0].feature == "image level"
