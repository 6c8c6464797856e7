# SPDX-License-Identifier: Apache-2.0
"""The reward core: the group contract, the built-in scorers, the run-bound catalog and the stage."""

from posttrain.errors import RewardConfigError, RewardContractError, RewardError, RewardUnavailableError
from posttrain.rewards.catalog.catalog import RewardCatalog
from posttrain.rewards.catalog.identity import ProviderIdentity, StageIdentity
from posttrain.rewards.catalog.load import load_catalog
from posttrain.rewards.contract.pointwise import map_candidates
from posttrain.rewards.contract.provider import CandidateScorer, ManagedRewardProvider, RewardProvider
from posttrain.rewards.contract.request import LatentCandidate, RewardCandidate, RewardContext, RewardGroupRequest
from posttrain.rewards.contract.result import RewardCandidateResult, RewardGroupResult, RewardProviderResult
from posttrain.rewards.contract.route import route
from posttrain.rewards.contract.spec import ProviderExecution, RewardProviderSpec
from posttrain.rewards.metrics.contribution import MetricContribution
from posttrain.rewards.metrics.report import ProviderReport, RewardReport
from posttrain.rewards.stage.boundary import GroupScores
from posttrain.rewards.stage.combine import RewardCombiner
from posttrain.rewards.stage.evaluator import GroupEvaluator, InProcessEvaluator
from posttrain.rewards.stage.outcome import GroupOutcome, RewardOutcome
from posttrain.rewards.stage.worker import RewardWorker

__all__ = [
    "CandidateScorer",
    "GroupEvaluator",
    "GroupOutcome",
    "GroupScores",
    "InProcessEvaluator",
    "LatentCandidate",
    "ManagedRewardProvider",
    "MetricContribution",
    "ProviderExecution",
    "ProviderIdentity",
    "ProviderReport",
    "RewardCandidate",
    "RewardCandidateResult",
    "RewardCatalog",
    "RewardCombiner",
    "RewardConfigError",
    "RewardContext",
    "RewardContractError",
    "RewardError",
    "RewardGroupRequest",
    "RewardGroupResult",
    "RewardOutcome",
    "RewardProvider",
    "RewardProviderResult",
    "RewardProviderSpec",
    "RewardReport",
    "RewardUnavailableError",
    "RewardWorker",
    "StageIdentity",
    "load_catalog",
    "map_candidates",
    "route",
]
