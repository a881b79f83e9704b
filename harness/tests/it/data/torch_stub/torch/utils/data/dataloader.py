"""As much of PyTorch's data loader as is watched: an iterator that knows its dataset and sampler."""


class _BatchSampler:
    def __init__(self, sampler, batch):
        self.sampler = sampler
        self.batch_size = batch


class _BaseDataLoaderIter:
    def __init__(self, loader):
        self._dataset = loader.dataset
        self._index_sampler = _BatchSampler(loader.sampler, loader.batch)
        self._next = 0

    def __next__(self):
        if self._next >= len(self._index_sampler.sampler):
            raise StopIteration
        self._next += self._index_sampler.batch_size
        return self._index_sampler.batch_size


class DataLoader:
    def __init__(self, dataset, batch, sampler=None):
        self.dataset = dataset
        self.batch = batch
        self.sampler = sampler if sampler is not None else dataset

    def __iter__(self):
        return _BaseDataLoaderIter(self)
