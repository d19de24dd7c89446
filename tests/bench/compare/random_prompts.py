"""Distinct prompts of random token ids; imported by the workers in the peers' environments."""

import random


def random_prompts(tokens, count, seed):
    chooser = random.Random(seed)
    return [[chooser.randrange(100, 49000) for _ in range(tokens)] for _ in range(count)]
