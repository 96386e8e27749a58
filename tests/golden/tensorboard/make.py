#!/usr/bin/env python3
"""Writes events.hex: an event file as TensorBoard's own writer makes it, with times of our choice. Needs the package tensorboard."""
import pathlib
import tempfile

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / "events"
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        writer.write(Event(wall_time=1700000000.0, file_version="brain.Event:2").SerializeToString())
        values = [Summary.Value(tag="loss/mean", simple_value=2.5), Summary.Value(tag="optim/lr", simple_value=0.001)]
        writer.write(Event(wall_time=1700000001.5, step=300, summary=Summary(value=values)).SerializeToString())
        writer.flush()
    pathlib.Path(__file__).with_name("events.hex").write_text(path.read_bytes().hex() + "\n")
