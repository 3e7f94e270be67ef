"""The workers' GPUs, none of which is the scheduler's."""

from cupy import note


class Comms:
    ready = False

    def __init__(self, comms_p2p, client, nccl_root_location):
        assert comms_p2p
        assert nccl_root_location == "worker"
        self.client = client

    def init(self):
        self.client.run(note, "nccl")
        self.ready = True

    def destroy(self):
        self.client.run(note, "nccl-destroyed")
