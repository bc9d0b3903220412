/* A container and the `.tally` section of the file that it is linked into. */
    .section .rodata
    .balign 8
    .globl testContainer
testContainer:
    .incbin "container.bin"
    .section .tally, "", @progbits
    .incbin TALLY_SECTION
    .section .note.GNU-stack, "", @progbits
