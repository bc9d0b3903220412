// Reads %ctaid.z and %nctaid.y alone: the other coordinates must still be taken apart.
extern "C" __global__ void grid_z_only(unsigned *runs) { atomicAdd(&runs[blockIdx.z], gridDim.y); }
