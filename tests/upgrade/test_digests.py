"""What was said in 0.1.0 keeps its digest: versions, arms and step keys are named by it for ever."""

from registry.contract.pipeline import Classify, PipelineSpec, Regress
from registry.contract.recipes import Precision, Recipe
from registry.contract.versions import Dtype, Signature, TensorSpec, VersionContract
from registry.contract.wire import sha256_of


def test_a_contract_of_the_foundation() -> None:
    spec = TensorSpec(name="x", dtype=Dtype.FP32, shape=("batch", 4))
    made = VersionContract(
        signature=Signature(
            inputs=(spec,), outputs=(TensorSpec(name="scores", dtype=Dtype.FP32, shape=("batch", 2)),)
        ),
        pipeline=PipelineSpec(post=(Classify(output="scores", labels=("a", "b")), Regress(output="scores"))),
    )
    assert sha256_of(made) == "sha256-e9baf866a7a7dcd5b7c15eb421c47981081340f5d02b233a3bec2f3d9c9c6e08"


def test_a_recipe_of_the_foundation() -> None:
    made = Recipe(precisions=(Precision.FP32,))
    assert sha256_of(made) == "sha256-cdc5ad721ce441f86e73eeb16f0b241352e62d635d2286e9ebf63943e40fa729"
