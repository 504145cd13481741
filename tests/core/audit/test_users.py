import json

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.audit.users import user_text
from proxy.core.gocompat.quote import TRUNCATION_MARKER
from proxy.core.truncation import truncated_value
from proxy.core.userinfo import UserInfo, make_extra

words = st.text(st.sampled_from('a<"é\ud800\x01😀') | st.characters(), max_size=60)
long_words = st.builds(lambda word, times: word * times, words, st.integers(1, 60))
identities = st.builds(
    UserInfo,
    words | long_words,
    words | long_words,
    st.lists(words | long_words, max_size=30).map(tuple),
    st.dictionaries(words | long_words, st.lists(words, max_size=4), max_size=6).map(make_extra),
)


@given(identities, st.integers(512, 8192))
def test_a_user_fits_and_is_marked_exactly_if_it_was_cut(user: UserInfo, most: int) -> None:
    text, cuts = user_text(user, path="user", max_bytes=most)
    whole, _ = user_text(user, path="user", max_bytes=1 << 30)

    assert len(text.encode()) <= most
    assert bool(cuts) == (text != whole) == (len(whole.encode()) > most)
    assert (TRUNCATION_MARKER in text) >= bool(cuts)
    assert json.loads(text).keys() == json.loads(whole).keys()


def test_no_part_of_a_group_or_an_extra_passes_for_another_one() -> None:
    groups = tuple(f"group-{number:04}" for number in range(1000))
    user_info = UserInfo("alice", "7", groups, make_extra({"a": ["x"], "b": ["y" * 2000]}))

    text, cuts = user_text(user_info, path="impersonatedUser", max_bytes=4096)

    user = json.loads(text)
    kept = len(user["groups"]) - 1
    assert 50 < kept < 1000
    assert user == {
        "username": "alice",
        "uid": "7",
        "groups": [*groups[:kept], TRUNCATION_MARKER],
        "extra": {"a": ["x"], TRUNCATION_MARKER: [TRUNCATION_MARKER]},
    }
    assert [cut.path for cut in cuts] == ["impersonatedUser.groups", "impersonatedUser.extra"]


def test_a_long_name_is_told_by_its_digest() -> None:
    user = UserInfo("a" * 70_000, groups=("dev",))

    text, cuts = user_text(user, path="user", max_bytes=65_536)

    assert json.loads(text)["groups"] == ["dev"]
    assert json.loads(text)["username"].endswith(TRUNCATION_MARKER)
    assert cuts == (truncated_value("user.username", user.name),)
