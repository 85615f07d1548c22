import pytest

from card import Asked, Card


@pytest.fixture(scope="session")
def asked():
    made = Asked.from_environment()
    why = made.why_no_card()
    if why:
        pytest.skip(f"no GPU to test on: {why}")
    return made


@pytest.fixture(scope="session")
def card(asked):
    return Card(asked)


@pytest.fixture(scope="session")
def part_mib(card):
    """2 of 15 units of the card, as the contract rounds: 2154 of 16160."""
    return card.memory_mib() * 2 // 15


@pytest.fixture(scope="session")
def filled_mib(asked, part_mib):
    """For runs that write to all of it: what a simulated card holds is in this machine's memory."""
    return 600 if asked.simulated else part_mib
