# A shared object with gadgets in it, of every kind that removal knows; the test chooses by a definition whether there is
# also one that it cannot remove. Every function has the unwind information that compilers give theirs.
.intel_syntax noprefix

.macro function name
    .p2align 4
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
.endm
.macro end name
    .cfi_endproc
    .size \name, . - \name
.endm

# Instructions of their own. They are jumped over: the test goes there itself.
function planted_wrpkru
    mov     eax, 1
    jmp     1f
    .globl  at_wrpkru
at_wrpkru:
    wrpkru
1:  ret
end planted_wrpkru

function planted_xrstor
    mov     eax, 2
    jmp     1f
    .globl  at_xrstor
at_xrstor:
    xrstor  [rsp + 0x40]
1:  ret
end planted_xrstor

function planted_wrfsbase
    mov     eax, 3
    jmp     1f
    .globl  at_wrfsbase
at_wrfsbase:
    wrfsbase rax
1:  ret
end planted_wrfsbase

# Distances from the instruction pointer: of an address, of a branch, of a call.
function planted_address
    .byte   0x48, 0x8d, 0x05, 0x0f, 0x01, 0xef, 0x00        # lea rax, [rip + 0xef010f]
    ret
end planted_address

function planted_branch
    xor     eax, eax
    test    edi, edi
    .byte   0x0f, 0x85, 0x0f, 0xae, 0x28, 0x00              # jnz from_branch + 0x28ae0f
from_branch:
    mov     eax, 7
    ret
end planted_branch

function planted_call
    push    rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    lea     rbp, [rdi + 1]
    .byte   0xe8, 0x0f, 0xae, 0x28, 0x00                    # call from_call + 0x28ae0f
from_call:
    add     rax, rbp
    pop     rbp
    .cfi_def_cfa_offset 8
    ret
end planted_call

# The end of a short instruction and the beginning of the next one.
function planted_pair
    push    rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov     ebp, 5
    xor     eax, eax
    mov     al, 0x0f
    .byte   0x01, 0xef                                      # add edi, ebp
    lea     eax, [rdi + rax]
    pop     rbp
    .cfi_def_cfa_offset 8
    ret
end planted_pair

# The same where the first of them is branched to.
function planted_loop
    push    rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    mov     ebp, 5
    xor     eax, eax
    mov     ecx, 3
1:  mov     al, 0x0f
    .byte   0x01, 0xef
    dec     ecx
    jnz     1b
    lea     eax, [rdi + rax]
    pop     rbp
    .cfi_def_cfa_offset 8
    ret
end planted_loop

# What the branch and the call above lead to, at the very distance.
    .skip   0x28ae0f - (. - from_branch), 0xcc
    mov     eax, 8
    ret
    .skip   0x28ae0f - (. - from_call), 0xcc
    .cfi_startproc
    jmp     rsi
    .cfi_endproc

#ifdef constant
function stuck
    mov     eax, 0x00ef010f
    ret
end stuck
#endif

#ifdef short
# Every instruction is branched to.
function stuck
    cmp     edi, 1
    je      2f
    cmp     edi, 2
    je      3f
    cmp     edi, 3
    je      4f
1:  mov     al, 0x0f
2:  .byte   0x01, 0xef
3:  dec     ecx
4:  jnz     1b
    ret
end stuck
#endif

#ifdef data
# No unwind information.
    .globl  stuck
stuck:
    .byte   0x0f, 0x01, 0xef
#endif

    .section .note.GNU-stack, "", @progbits
