"""torch as it is, with its CPU in the place of a GPU: each copy to it, and from it, is noted.

What lies there cannot be told from what does not, so every ``to`` is a copy to the device, and
every ``cpu``, ``item`` and ``tolist`` one from it.
"""

from cupy import note


def install():
    import torch

    if hasattr(torch, "as_cuda"):
        return
    torch.as_cuda = True
    to, tensor_of = torch.Tensor.to, torch.tensor

    def to_device(tensor, *where, **named):
        note("to-device", tensor.nbytes)
        kept = [argument for argument in where if not str(argument).startswith("cuda")]
        return to(tensor, *kept, **named) if kept else tensor.clone()

    def make_tensor(data, device="cpu", **named):
        tensor = tensor_of(data, **named)
        return to_device(tensor, device) if device == "cuda" else tensor

    def noting(copy):
        def to_host(tensor):
            note("to-host", tensor.nbytes)
            return copy(tensor)

        return to_host

    torch.Tensor.to, torch.tensor = to_device, make_tensor
    for name in ("cpu", "item", "tolist"):
        setattr(torch.Tensor, name, noting(getattr(torch.Tensor, name)))
