"""What is one request and what is two. Names hold the ids of the user cases they stand for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.cache.key import (
    Request,
    digest_preimage,
    frame,
    make_key,
    read_preimage,
    strip_controls,
    unframe,
)
from samebits.errors import RecordCorrupt, UnsupportedInput
from samebits.record.digest import tagged_digest
from tests.cache.requests import SURFACE, digest, make_identity, make_request


def key_of(request: Request, namespace: str = "") -> bytes:
    return make_key(request, namespace).digest


SAME = key_of(make_request())


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def test_B2_an_unknown_field_counts_and_so_does_its_value() -> None:
    assert len({SAME, key_of(make_request(x_foo=1)), key_of(make_request(x_foo=2))}) == 3


@pytest.mark.parametrize("field", ["top_k", "num_ctx", "tools", "response_format", "stream", "n"])
def test_B2_no_field_of_an_engine_is_left_out(field: str) -> None:
    named: dict[str, Any] = {field: 1}
    assert key_of(make_request(**named)) != SAME


def test_B3_tool_results_that_differ_in_their_call_id_alone_are_two_requests() -> None:
    keys = {
        key_of(make_request(messages=[{"role": "tool", "tool_call_id": name, "content": "4"}]))
        for name in ("call_1", "call_2")
    }
    assert len(keys) == 2


def test_B4_the_order_of_object_keys_does_not_count() -> None:
    body = make_request(messages=[user("Why?", name="a")]).body
    other = {name: body[name] for name in reversed(list(body))}
    other["messages"] = [dict(reversed(list(body["messages"][0].items())))]
    assert list(other) != list(body)
    assert key_of(Request(surface=SURFACE, body=other, identity=make_identity())) == key_of(
        Request(surface=SURFACE, body=body, identity=make_identity())
    )


def test_B4_the_order_of_an_array_counts() -> None:
    assert key_of(make_request(stop=["a", "b"])) != key_of(make_request(stop=["b", "a"]))


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (0, -0.0), (0, 0.0), (10, 1e1), ((1, 2), [1, 2])])
def test_B4_one_number_in_two_spellings_is_one_request(a: Any, b: Any) -> None:
    assert key_of(make_request(x=a)) == key_of(make_request(x=b))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, "1"),
        (1, True),
        (0, False),
        (0, None),
        ("", None),
        ([], {}),
        (2**53, str(2**53)),
        (2**63, str(2**63)),
        (-(2**63), str(-(2**63))),
        (2**53, float(2**53)),
        ([2**60, str(2**60)], [str(2**60), 2**60]),
        ({"a": 2**60, "b": str(2**60)}, {"a": str(2**60), "b": 2**60}),
        (0.1, 0.1 + 2**-55),
    ],
)
def test_B4_values_of_two_types_or_bits_are_two_requests(a: Any, b: Any) -> None:
    assert key_of(make_request(x=a)) != key_of(make_request(x=b))


def test_B4_composed_and_decomposed_letters_are_two_requests() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    assert key_of(make_request(messages=[user(composed)])) != key_of(
        make_request(messages=[user(decomposed)])
    )


def test_B4_absent_and_null_are_two_requests() -> None:
    assert key_of(make_request(seed=None)) != SAME


def test_B5_the_same_question_under_another_system_prompt_is_another_request() -> None:
    keys = {
        key_of(make_request(messages=[{"role": "system", "content": language}, user("Why?")]))
        for language in ("Antworte deutsch.", "Réponds en français.")
    }
    assert len(keys) == 2


@pytest.mark.parametrize("name", ["weights", "tokenizer", "template"])
def test_B6_the_same_model_name_with_other_weights_is_another_request(name: str) -> None:
    assert key_of(make_request(identity=make_identity(**{name: digest("other")}))) != SAME


def test_B6_another_lock_is_another_request() -> None:
    other = make_identity(setting={"lock": digest("another lock")})
    assert key_of(make_request(identity=other)) != SAME


def test_no_template_is_not_an_empty_one() -> None:
    keys = {key_of(make_request(identity=make_identity(template=name))) for name in (None, "")}
    assert len(keys) == 2


def test_long_integers_in_the_setting_are_no_texts() -> None:
    keys = {
        key_of(make_request(identity=make_identity(setting={"seed": seed})))
        for seed in (2**60, str(2**60))
    }
    assert len(keys) == 2


def test_B8_controls_of_the_cache_are_no_part_of_the_request_and_are_not_sent_on() -> None:
    steered = make_request(samebits_cache={"draw": 3})
    assert key_of(steered) == SAME
    assert strip_controls(steered.body) == make_request().body


def test_a_control_counts_where_it_is_not_at_the_top() -> None:
    assert key_of(make_request(x={"samebits_cache": 1})) != key_of(make_request(x={}))


def test_surface_namespace_and_sample_index_count() -> None:
    body, identity = make_request().body, make_identity()
    keys = [
        key_of(Request(surface=surface, body=body, identity=identity, index=index), namespace)
        for surface in (SURFACE, "other")
        for namespace in ("", "tenant")
        for index in (None, 0, 1)
    ]
    assert len(set(keys)) == 12


@given(st.lists(st.binary(max_size=12), max_size=6), st.lists(st.binary(max_size=12), max_size=6))
def test_framed_parts_never_collide_and_come_back(a: list[bytes], b: list[bytes]) -> None:
    assert (frame(*a) == frame(*b)) == (a == b)
    assert unframe(frame(*a)) == a


def test_shifting_a_letter_from_one_part_to_the_next_is_another_key() -> None:
    body, identity = make_request().body, make_identity()
    a = key_of(Request(surface="ab", body=body, identity=identity), "c")
    b = key_of(Request(surface="a", body=body, identity=identity), "bc")
    assert a != b


def test_the_key_is_the_tagged_digest_of_its_parts() -> None:
    key = make_key(make_request(), "tenant")
    expected = tagged_digest("samebits/cache-key/v1", *unframe(key.preimage))
    assert f"sha256:{key.digest.hex()}" == expected
    assert digest_preimage(key.preimage) == key.digest


def test_a_key_tells_what_it_was_made_of() -> None:
    request = Request(surface="s", body={"x": [1, "é"]}, identity=make_identity(), index=7)
    found = read_preimage(make_key(request, "tenant").preimage)
    assert (found.surface, found.namespace, found.index) == ("s", "tenant", 7)
    assert found.body == {"x": [1, "é"]}
    assert found.identity["weights"] == digest("weights")


@pytest.mark.parametrize(
    "data",
    [b"x", frame(b"a"), frame(b"a")[:-1], frame(*[b"\xff"] * 6), frame(*[b"{"] * 6), b"\xff" * 9],
)
def test_what_is_no_preimage_is_refused(data: bytes) -> None:
    with pytest.raises(RecordCorrupt):
        read_preimage(data)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1: 2}, b"x", object()])
def test_what_has_no_canonical_form_has_no_key(value: object) -> None:
    with pytest.raises(UnsupportedInput):
        make_key(make_request(x=value))
