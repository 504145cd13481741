from proxy.core.errors import OperatorError


def test_a_mistake_in_the_set_up_is_told_in_its_own_words() -> None:
    assert OperatorError("the port is taken").lines == ["the port is taken"]
