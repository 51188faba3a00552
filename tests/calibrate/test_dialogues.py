"""LiveKit and Pipecat: talk share, barge-in, turn gaps, and the requests, worked by hand."""

import json

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from tests.calibrate.test_request_traces import FILES
from tests.calibrate.test_summaries import AIPERF, CURVES, PERF_ANALYZER, RESPONSES, written
from voicesim.calibrate.errors import CalibrationError
from voicesim.calibrate.readers import FORMATS, read
from voicesim.calibrate.readers.source import head_of
from voicesim.cli import app
from voicesim.experiment.replay import recorded_calls
from voicesim.scenario.workload import Workload

EVENTS = [
    {"type": "eou_metrics", "timestamp": 1000.0, "end_of_utterance_delay": 0.62,
     "transcription_delay": 0.21, "speech_id": "s1"},
    {"type": "llm_metrics", "timestamp": 1000.5, "ttft": 0.25, "duration": 1.0, "speech_id": "s1"},
    {"type": "tts_metrics", "timestamp": 1002.0, "ttfb": 0.13, "duration": 1.0,
     "audio_duration": 4.0, "cancelled": False, "speech_id": "s1", "segment_id": "a"},
    {"type": "tts_metrics", "timestamp": 1006.5, "ttfb": 0.2, "duration": 1.5,
     "audio_duration": 2.0, "cancelled": True, "speech_id": "s1", "segment_id": "b"},
    {"type": "vad_metrics", "timestamp": 1007.0, "idle_time": 1.0},
    {"type": "stt_metrics", "timestamp": 1008.0, "audio_duration": 1.75, "streamed": False,
     "duration": 0.2},
    {"type": "tts_metrics", "timestamp": 1012.0, "ttfb": -1, "duration": 1.0,
     "audio_duration": 9.0, "cancelled": False, "speech_id": "s2"},
    {"message": "a line of the log"},
]  # fmt: skip
LIVEKIT = "\n".join(map(json.dumps, EVENTS))
LINE = "2026-11-29 09:15:{} | DEBUG | a.b:c:1 | {}\n"
PIPECAT = "".join(
    LINE.format(*each)
    for each in [
        ("00.000", "User started speaking"),
        ("01.500", "User stopped speaking"),
        ("01.900", "[OpenAILLMService#0] TTFB (gpt): 0.300s at 1.9s"),
        ("02.400", "📊 [QwenTTSService#3] TTFB (qwen3-tts): 0.250s at 41.882s"),
        ("02.500", "[QwenTTSService#3] TTS USAGE (qwen3-tts): 64 characters at 42.204s"),
        ("02.750", "Bot started speaking"),
        ("04.000", "[QwenTTSService#3] TTFB: 0.1s"),
        ("05.000", "User started speaking"),
        ("05.250", "Bot stopped speaking"),
        ("06.000", "User stopped speaking"),
        ("08.000", "Bot started speaking"),
        ("10.000", "Bot stopped speaking"),
    ]
)


TEXTS = {
    **{name: text for name, (text, _) in FILES.items()},
    **{name: text for name, (text, _) in CURVES.items()},
    "aiperf": AIPERF,
    "perf_analyzer": PERF_ANALYZER,
    "llmperf, individual": json.dumps(RESPONSES),
    "livekit": LIVEKIT,
    "pipecat": PIPECAT,
    "servegen": "0,2.0,3.0,Gamma,0.111,4.5\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_recognised_by_one_reader_only(tmp_path, text):
    head = head_of(written(tmp_path, text))
    assert sum(form.sniff(head) for form in FORMATS) == 1


def measures(tmp_path, text):
    table = read(written(tmp_path, text)).dialogue
    return table.groupby("measure")["value"].apply(list).to_dict()


def test_livekit(tmp_path):
    found = measures(tmp_path, LIVEKIT)
    assert found["endpointing_s"] == [0.62]
    assert found["user_turn_s"] == [1.75]
    assert found["bot_turn_s"] == [6.0, 9.0]
    assert found["barge_in"] == [1, 0]
    assert found["gap_s"] == pytest.approx([0.62 + 0.25 + 0.13])  # s2 has no first byte
    # requests at 0, 4 and 10 s (timestamp less duration, from 1001 s); the last sound at 19 s
    assert found["talk_share"] == pytest.approx([15 / 19])
    requests = read(written(tmp_path, LIVEKIT)).requests
    assert requests["arrival_s"].tolist() == [0, 4, 10]
    assert requests["audio_s"].tolist() == [4, 2, 9]
    assert requests["ttfa_s"].tolist()[:2] == [0.13, 0.2]
    assert requests["cancelled"].tolist() == [False, True, False]


def test_pipecat(tmp_path):
    found = measures(tmp_path, PIPECAT)
    assert found["user_turn_s"] == pytest.approx([1.5, 1.0])
    assert found["bot_turn_s"] == pytest.approx([2.5, 2.0])
    assert found["gap_s"] == pytest.approx([1.25, 2.0])
    assert found["barge_in"] == [1, 0]
    assert found["talk_share"] == pytest.approx([4.5 / 10])
    requests = read(written(tmp_path, PIPECAT)).requests
    # asked 0.25 s before 02.400; for the second reply 0.1 s before 04.000 is the first's
    assert requests["arrival_s"].tolist() == pytest.approx([0, 5.85])
    assert requests["ttfa_s"].tolist() == pytest.approx([0.6, 0.0])
    assert requests["audio_s"].tolist() == pytest.approx([2.5, 2.0])


def test_they_can_be_replayed_on_one_clock(tmp_path):
    first = written(tmp_path, LIVEKIT, "a")
    later = [{**each, "timestamp": each["timestamp"] + 60} for each in EVENTS[:-1]]
    second = written(tmp_path, "\n".join(map(json.dumps, later)), "b")
    calls = recorded_calls([second, first]).table
    assert calls["t_s"].tolist() == [0, 4, 10, 60, 64, 70]
    assert calls["session"].tolist() == [0, 0, 0, 1, 1, 1]
    assert calls["audio_s"].tolist() == [4, 2, 9] * 2
    # 4 s is before the end at 4.13, then 10 - 4 - 0.2 - 2
    assert calls["think_s"].tolist() == pytest.approx([0, 3.8, 0] * 2)
    calls = recorded_calls([written(tmp_path, PIPECAT, "c")])
    assert len(calls.table) == 2
    assert calls.notes[-1] == "prompt lengths are not in the trace: drawn from the scenario's law"
    assert (
        "c: the agent talks 45 % of the time; barge-in cuts 50 % of its replies (played as long as "
        "heard); turn gap, median, 1.62 s; caller's turn, median, 1.25 s"
    ) in calls.notes


BROKEN = {
    "livekit, cut": (LIVEKIT[:-5], "t:8: is truncated"),
    "livekit, NaN": (LIVEKIT.replace("4.0", "NaN", 1), "t:3: NaN is not a number"),
    "livekit, text": (LIVEKIT.replace("0.62", '"x"'), "t:1: end_of_utterance_delay: must be a num"),
    "livekit, missing": (
        LIVEKIT.replace("audio_duration", "audio_len"),
        "t:3: audio_duration: is mis",
    ),
    "livekit, nothing": (json.dumps(EVENTS[4]), "holds no tts_metrics and nothing of the talk"),
    "pipecat, back": (
        PIPECAT + LINE.format("09.000", "Bot started speaking"),
        "t:13: goes back in time",
    ),
    "pipecat, number": (PIPECAT.replace("0.250s", "soon"), "t:4: TTFB: found 'soon'"),
    "pipecat, time": (PIPECAT.replace("15:02.750", "15:99.750"), "t:6: found '2026-11-29 09:15:99"),
}


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_refused_with_their_line(tmp_path, text, message):
    with pytest.raises(CalibrationError) as error:
        read(written(tmp_path, text))
    assert message in str(error.value)


# --- what the command says --------------------------------------------------------------------

SAMPLE = (
    "2026-11-29 09:15:02.411 | DEBUG | a:b:1 | 📊 [QwenTTSService#3] TTFB (qwen3-tts): 0.214s at "
    "41.882s\n"
    "2026-11-29 09:15:02.733 | DEBUG | a:b:1 | 📊 [QwenTTSService#3] TTS USAGE (qwen3-tts): 64 "
    "characters at 42.204s\n"
    "2026-11-29 09:15:02.871 | DEBUG | t:_bot_started_speaking | Bot started speaking\n"
)


def calibrate(*words):
    return CliRunner().invoke(app, ["calibrate", *map(str, words)])


def test_a_log_that_ends_amid_a_reply_tells_what_it_has(tmp_path):
    """Asked 0.214 s before 02.411, heard at 02.871: 0.674 s to the first sound."""
    found = measures(tmp_path, SAMPLE)
    assert found == {"ttfb_s": [0.214], "first_sound_s": pytest.approx([0.674], abs=1e-6)}
    result = calibrate(written(tmp_path, SAMPLE, "log"))
    assert result.exit_code == 0
    assert "first sound: n 1, mean 0.674 s, p50 0.674 s, p95 0.674 s\n" in result.output
    assert "limit: the last reply: the log ends while the bot speaks" in result.output
    assert "no profile is written; no whole reply is in them" in result.output


def test_a_conversation_gives_its_measures_and_a_piece_of_a_scenario(tmp_path):
    """Pauses 0 (asked again 0.13 s before the end) and 3.8 s; replies of 4, 2 and 9 s."""
    out = tmp_path / "profile.yaml"
    result = calibrate(written(tmp_path, LIVEKIT, "log.jsonl"), "-o", out)
    assert result.exit_code == 0, result.output
    assert not out.exists()
    for line in (
        "measured: agent's share of the time: n 1, mean 78.9 %",  # 15 / 19
        "measured: replies cut by barge-in: n 2, mean 50 %",
        "measured: turn gap, caller's end to agent's first sound: n 1, mean 1 s, p50 1 s, p95 1 s",
        "measured: agent's reply: n 2, mean 7.5 s, p50 6 s, p95 9 s",
        "measured: caller's turn: n 1, mean 1.75 s, p50 1.75 s, p95 1.75 s",
    ):
        assert f"  {line}\n" in result.output
    assert "nothing to fit: conversations hold no step times, so no profile" in result.output
    piece = yaml.safe_load(result.output.split(":\n\n")[1].split("\n\n")[0])["workload"]
    sigma = round(float(np.std(np.log([4, 2, 9]))), 3)
    assert piece == {
        "utterance": {"audio": {"lognormal": {"mean": "5s", "sigma": sigma}}},
        "utterances_per_session": 3,
        "think": {"exponential": {"mean": "1.9s"}},
    }
    rest = {"arrivals": {"kind": "poisson", "rate": "1/s"}}
    workload = Workload.model_validate({**rest, **piece})
    assert workload.think.params["mean"] == 1.9
    assert workload.utterance.audio.params["mean"] == 5


def test_several_conversations_make_one_piece(tmp_path):
    """Pipecat: asked 2.75 s after the end of the first reply; with the pauses above, mean 2.183 s;
    2 + 3 requests in two sessions."""
    files = written(tmp_path, LIVEKIT, "a"), written(tmp_path, PIPECAT, "b")
    output = calibrate(*files).output
    assert "think: {exponential: {mean: 2.183s}}" in output
    assert "utterances_per_session: 2" in output  # 2.5, to the even
    assert "mean: 3.9s" in output  # (4 + 2 + 9 + 2.5 + 2) / 5


def test_other_files_still_need_an_output(tmp_path):
    result = calibrate(written(tmp_path, "batch,seconds\n1,0.01\n", "s.csv"))
    assert result.exit_code == 2
    assert "--output: is missing" in result.output
    assert result.output.count("\n") == 1
    refused = calibrate(written(tmp_path, LIVEKIT, "log"), "--name", "x")
    assert refused.exit_code == 2
    assert "give no option of a profile" in refused.output
