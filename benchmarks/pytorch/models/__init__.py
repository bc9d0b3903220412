"""The models, in the standard shapes of their architectures, with random weights from fixed seeds: nothing is downloaded."""
from . import bert, dlrm, gpt2, llama, resnet, unet

INFERENCE = {"resnet50": resnet.inference, "bert": bert.inference, "gpt2": gpt2.inference, "llama": llama.inference}
TRAINING = {"resnet50": resnet.training, "gpt2": gpt2.training, "dlrm": dlrm.training, "unet": unet.training}
