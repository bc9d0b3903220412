; Compiled by llc: an early return, both coordinates of the grid.
target triple = "nvptx64-nvidia-cuda"

declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

define ptx_kernel void @llc_scale(ptr addrspace(1) %out, ptr addrspace(1) %in, i32 %n) {
  %bx = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %by = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %gx = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %threads = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %row = mul i32 %by, %gx
  %block = add i32 %row, %bx
  %base = mul i32 %block, %threads
  %i = add i32 %base, %thread
  %inside = icmp ult i32 %i, %n
  br i1 %inside, label %work, label %end
work:
  %wide = zext i32 %i to i64
  %from = getelementptr i32, ptr addrspace(1) %in, i64 %wide
  %value = load i32, ptr addrspace(1) %from
  %scaled = mul i32 %value, 5
  %sum = add i32 %scaled, %bx
  %to = getelementptr i32, ptr addrspace(1) %out, i64 %wide
  store i32 %sum, ptr addrspace(1) %to
  br label %end
end:
  ret void
}
