"""cleanlab on given probabilities: the rows that it names, by each of its ways, and its ranking."""
# pyright: reportMissingImports=false

import json

import cleanlab
import numpy as np
from cleanlab.count import compute_confident_joint
from cleanlab.filter import find_label_issues
from cleanlab.rank import get_label_quality_scores
from peer import asked

WAYS = ("prune_by_noise_rate", "confident_learning", "both", "low_self_confidence")
RANKINGS = ("self_confidence", "normalized_margin")
question = asked()
labels, probabilities = np.array(question["labels"]), np.array(question["probabilities"])
given = {"labels": labels, "pred_probs": probabilities}
named = {way: find_label_issues(**given, filter_by=way, n_jobs=1) for way in WAYS}
joint = compute_confident_joint(labels, probabilities)
print(
    json.dumps(
        {
            "named": {way: np.flatnonzero(mask).tolist() for way, mask in named.items()},
            "quality": {
                name: get_label_quality_scores(**given, method=name).tolist() for name in RANKINGS
            },
            "estimated": int(joint.sum() - np.trace(joint)),
            "version": cleanlab.__version__,
        }
    )
)
