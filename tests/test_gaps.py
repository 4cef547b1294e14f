"""The sentences with a word left out."""

import pytest
import torch

from utils.gaps import GAP, PLACE, SCENES, VERB, WHO, gap_batches, gap_vocabulary, scene_sentences, with_gaps

CAT = ("the", "cat", "sat", "on", "the", "mat")


def test_the_splits_share_no_sentence_and_have_all_of_them():
    train, test = map(set, (scene_sentences("train"), scene_sentences("test")))
    assert not train & test
    assert len(train | test) == sum(len(who) * len(verbs) * len(places) for who, verbs, places in SCENES)
    assert CAT in train
    assert 0.1 < len(test) / len(train | test) < 0.3


def test_every_word_belongs_to_one_scene():
    """Otherwise the other words would not give the gap away."""
    words = [word for scene in SCENES for group in scene for word in group]
    assert len(words) == len(set(words))


def test_an_unknown_split_is_an_error():
    with pytest.raises(ValueError, match="split='valid'; expected 'train' or 'test'"):
        scene_sentences("valid")


@pytest.mark.parametrize("place", [WHO, VERB, PLACE])
def test_a_gap_takes_one_word_out_and_keeps_it_as_the_answer(place):
    batch = with_gaps([CAT], [place])
    tokens = [gap_vocabulary().tokens[i] for i in batch.token_ids[0].tolist()]
    assert tokens == [GAP if at == place else word for at, word in enumerate(CAT)]
    assert gap_vocabulary().tokens[batch.words[0]] == CAT[place]
    assert batch.places.tolist() == [place]


def test_batches_are_of_their_split_and_the_same_by_seed():
    batches, again, other = (gap_batches(3, 20, seed, "test") for seed in (1, 1, 2))
    assert len(batches) == 3
    for one, same in zip(batches, again, strict=True):
        assert torch.equal(one.token_ids, same.token_ids)
        whole = one.token_ids.scatter(1, one.places.unsqueeze(1), one.words.unsqueeze(1))
        assert {tuple(gap_vocabulary().tokens[i] for i in row) for row in whole.tolist()} <= set(
            scene_sentences("test")
        )
    assert not torch.equal(batches[0].token_ids, other[0].token_ids)
    assert {int(place) for batch in batches for place in batch.places} == {WHO, VERB, PLACE}
