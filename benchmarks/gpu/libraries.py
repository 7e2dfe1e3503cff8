"""What the runtime will find.

  libraries.py            `gpus`, `driver` and `nccl` as NAME VALUE lines; exits 1 without a GPU
  libraries.py folders    where wheels of Python's packages have libraries, as FSDP_CUDA_LIBS takes them

Libraries are looked for in FSDP_CUDA_LIBS, then where the system looks. Standard library only."""
import ctypes
import glob
import os
import pathlib
import sys


def load(*names):
    folders = [pathlib.Path(folder) for folder in os.environ.get("FSDP_CUDA_LIBS", "").split(":") if folder]
    for name in [str(folder / name) for name in names for folder in folders if (folder / name).exists()] + list(names):
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            reason = error
    print("none of", *names, reason)
    return None


def ask(function):
    """The number that a function stores, or the library's error, negated."""
    value = ctypes.c_int()
    status = function(ctypes.byref(value))
    return -status if status else value.value


def folders():
    """Debian's own packages are in dist-packages."""
    found = {file.rsplit("/", 1)[0] for path in sys.path if path.endswith(("site-packages", "dist-packages"))
             for file in glob.glob(path + "/nvidia/**/lib/*.so*", recursive=True)}
    print(":".join(sorted(found)))


def main():
    cuda, nccl, products = load("libcuda.so.1"), load("libnccl.so.2"), load("libcublasLt.so.13", "libcublasLt.so.12")
    gpus = 0
    if cuda and cuda.cuInit(0) == 0:
        gpus = ask(cuda.cuDeviceGetCount)
        print("driver", ask(cuda.cuDriverGetVersion))
    print("gpus", gpus)
    print("nccl", ask(nccl.ncclGetVersion) if nccl else 0)
    if products:
        products.cublasLtGetVersion.restype = ctypes.c_size_t
        print("cublaslt", products.cublasLtGetVersion())
    attention = load("libcudnn.so.9")
    if attention:
        attention.cudnnGetVersion.restype = ctypes.c_size_t
        print("cudnn", attention.cudnnGetVersion())
    return 0 if gpus > 0 and nccl and products else 1


if __name__ == "__main__":
    sys.exit(folders() if sys.argv[1:] == ["folders"] else main())
