"""A short soak (soak.py), of the kind that finds something: it must find nothing.

The longer one is run by hand; tests/e2e/README.md has the command.
"""

from soak import soak

# What a soak that does its work makes happen.
KINDS = """
    stop length abort deadline rejected_queue_full rejected_tenant_requests rejected_invalid_argument
    rejected_duplicate_id rejected_unknown_model rejected_deadline
""".split()


def test_a_soaked_server_owes_nothing():
    received, counts = soak(duration=36, seed=1, clients=3)
    print(f"{received} requests: {counts}")
    for kind in KINDS:
        assert counts.get(kind), f"{kind} in {counts}"
