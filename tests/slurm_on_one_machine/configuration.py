"""slurm.conf and gres.conf of a Slurm whose nodes all are this machine."""

from __future__ import annotations

import socket

NODES = ("node1", "node2", "node3", "node4")
CORES_PER_NODE = 4
GPUS_PER_NODE = 2
MEMORY_PER_NODE = 16_000  # MB, of which the machine need not have any


def slurm_conf(folder, ports):
    """The text of slurm.conf; ``ports`` are the controller's and one for each node."""
    host = socket.gethostname().split(".")[0]
    settings = {
        "ClusterName": "one-machine",
        "SlurmctldHost": f"{host}(127.0.0.1)",
        "SlurmctldPort": ports[0],
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder}/munge.socket",
        # Nothing listens beyond loopback.
        "CommunicationParameters": "NoCtldInAddrAny,NoInAddrAny",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd-%n.pid",
        "SlurmctldLogFile": folder / "slurmctld.log",
        "SlurmdLogFile": folder / "slurmd-%n.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "MpiDefault": "none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        # Nodes may claim more than the machine has.
        "SlurmdParameters": "config_overrides",
        "SchedulerParameters": "bf_interval=5,sched_interval=5,batch_sched_delay=0",
        "ReturnToService": 2,
        "KillWait": 5,
        "GresTypes": "gpu",
    }
    lines = [f"{name}={value}" for name, value in settings.items()]
    for node, port in zip(NODES, ports[1:], strict=True):
        lines.append(
            f"NodeName={node} NodeHostName={host} NodeAddr=127.0.0.1 Port={port} "
            f"CPUs={CORES_PER_NODE} RealMemory={MEMORY_PER_NODE} Gres=gpu:{GPUS_PER_NODE} "
            "State=UNKNOWN"
        )
    lines.append(f"PartitionName=all Nodes={','.join(NODES)} Default=YES MaxTime=INFINITE State=UP")
    return "\n".join(lines) + "\n"


def gres_conf(folder):
    """The text of gres.conf: a GPU must be a device file, or its number is not handed on."""
    return "".join(
        f"NodeName={node} Name=gpu File={folder}/{node}/nvidia{number}\n"
        for node in NODES
        for number in range(GPUS_PER_NODE)
    )
