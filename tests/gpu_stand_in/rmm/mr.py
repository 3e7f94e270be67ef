class PoolMemoryResource:
    """A pool of some bytes."""

    def __init__(self, size):
        self._size = size

    def pool_size(self):
        return self._size


class TrackingResourceAdaptor:
    """Counts what is taken from another resource."""

    def __init__(self, upstream, allocated):
        self._upstream, self._allocated = upstream, allocated

    def get_upstream(self):
        return self._upstream

    def get_allocated_bytes(self):
        return self._allocated


_resources = [object()]  # plain cudaMalloc


def get_current_device_resource():
    return _resources[-1]


def set_current_device_resource(resource):
    _resources.append(resource)
