from proxy.core.errors import SetupError


def test_a_mistake_in_the_set_up_is_told_in_its_own_words() -> None:
    assert SetupError("the port is taken").lines == ["the port is taken"]
