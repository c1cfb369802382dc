# The guest's boot sector and what it loads: Linux and its initrd in two reads of a virtio disk.
#
# A BIOS gives a boot loader 64 KiB at a time and turns its thumbs until they are there. Under emulation that takes a
# third of what a guest's whole start takes, and far more on a machine that has other things to do. So this asks the
# disk itself, as a driver does. Where the disk is no virtio device, or memory is short, it hands over to syslinux,
# whose boot sector lies behind this one.
#
# packaging/guest assembles it: `as --32 --defsym NAME=VALUE…`, linked to run at 0x7c00. It defines where the kernel and
# the initrd are on the disk, in sectors (KERNEL, INITRD), how long (SETUP, the kernel's part for real mode, with
# BODY, the rest, and INITRD_SECTORS), where the rest goes (PLACE), and the memory that a kernel needs while it unpacks
# itself (NEEDED, in 64 KiB from 16 MiB on). It puts the file system's own parameters and syslinux's sector into their
# places.
#
# A kernel that is to go elsewhere than to 1 MiB is unpacked already. Its part for real mode then ends in `enter`, in
# the place of the unpacking, which leaves the processor to the kernel as that would.
#
# What it obeys: Documentation/arch/x86/boot.rst of Linux for the 16-bit entry, the boot loader hook ("code32_start")
# and the 64-bit entry, and virtio 1.1 ("4.1.4.9 PCI
# configuration access capability": all is asked by way of the configuration space, so that no register of the device
# has to be in reach of real mode).

        .intel_syntax noprefix
        .code16
        .set SYSLINUX, 0x7e00           # where its sector lies when ours is at 0x7c00
        .set ANSWER, 0x1000             # what the BIOS says of the disk
        .set LINUX, 0x9000              # the segment of the kernel's part for real mode
        .set STACK, 0xe000              # and the end of its heap and stack
        .set PACKED, 0x100000           # where a kernel goes that has still to unpack itself
        .set TABLES, 0x10000            # page tables for the first 1 GiB
        .set PAGE, 0x1000
        .set CODE, 0x10                 # the kernel's selectors
        .set DATA, 0x18
        .set PCI_ADDRESS, 0xcf8
        .set COMMON, 1                  # kinds of virtio's capabilities
        .set NOTIFY, 2
        .set WINDOW, 5

        .globl _start
_start: jmp     short begin
        nop
        .org    0x5a                    # until here: the file system's parameters
begin:  cli
        xor     ax, ax
        mov     ds, ax
        mov     es, ax
        mov     ss, ax
        mov     sp, 0x7c00
        sti
        cld
        mov     [drive], dl
        mov     si, offset packet
        mov     ah, 0x42
        int     0x13
        jc      1f
        jmp     further
1:      int     0x18                    # nothing to boot: the BIOS tries the next
drive:  .byte   0
        .balign 4
packet: .word   16, SECTORS - 1
        .word   SYSLINUX, 0
        .long   1, 0
        .org    0x1fe
        .word   0xaa55
        .org    0x400                   # until here: syslinux's sector

further:
        mov     si, ANSWER
        mov     word ptr [si], 74
        mov     ah, 0x48
        mov     dl, [drive]
        int     0x13
        jc      syslinux
        cmp     word ptr [si + 0x1e], 0xbedd
        jne     syslinux
        cmp     dword ptr [si + 0x24], 0x20494350       # "PCI "
        jne     syslinux
        mov     ah, [si + 0x30]                         # bus
        mov     al, [si + 0x31]                         # slot
        shl     al, 3
        or      al, [si + 0x32]                         # function
        movzx   eax, ax
        shl     eax, 8
        or      eax, 0x80000000
        mov     [device], eax

        xor     al, al
        call    read_pci
        cmp     eax, 0x10421af4
        je      capabilities
        cmp     eax, 0x10011af4
        jne     syslinux
capabilities:
        mov     al, 0x34
        call    read_pci
next_capability:
        and     al, 0xfc
        jz      memory
        mov     bl, al
        call    read_pci                                # kind, length, next, identifier
        mov     cx, ax
        cmp     cl, 9
        jne     4f
        shr     eax, 24
        cmp     al, WINDOW
        jne     3f
        mov     [window], bl
3:      cmp     al, NOTIFY
        ja      4f
        movzx   di, al
        shl     di, 3
        mov     al, bl
        add     al, 4
        call    read_pci
        mov     [di + places], eax
        mov     al, bl
        add     al, 8
        call    read_pci
        mov     [di + places + 4], eax
4:      mov     al, ch
        jmp     next_capability

        # The initrd goes to the end of memory, as far as the kernel takes it; its own place is from 16 MiB on.
memory: cmp     byte ptr [window], 0
        je      syslinux
        xor     dx, dx
        mov     ax, 0xe801
        int     0x15
        jc      syslinux
        cmp     dx, 0x6f00
        jbe     5f
        mov     dx, 0x6f00
5:      movzx   eax, dx
        sub     eax, (INITRD_SECTORS + 127) / 128
        cmp     eax, NEEDED
        jl      syslinux
        add     eax, 0x100
        shl     eax, 16
        mov     [initrd_place], eax

        mov     si, offset steps
6:      call    take_step
        cmp     si, offset steps_end
        jb      6b
7:      pause
        cmp     word ptr [used + 2], 2
        jne     7b
        mov     si, offset reset
        call    take_step
        mov     ax, [first_status]
        or      ax, [second_status]
        jnz     failed

        # The kernel's header says what it is to know.
        mov     ax, LINUX
        mov     es, ax
        mov     byte ptr es:[0x210], 0xff               # a loader without a number
        or      byte ptr es:[0x211], 0x80               # there is a heap
        mov     word ptr es:[0x224], STACK - 0x200
        mov     eax, [initrd_place]
        mov     es:[0x218], eax
        mov     dword ptr es:[0x21c], INITRD_SECTORS * 512
        mov     dword ptr es:[0x228], (LINUX << 4) + STACK
        .if     PLACE != PACKED
        mov     dword ptr es:[0x214], offset enter
        .endif
        mov     si, offset arguments
        mov     di, STACK
        mov     cx, offset arguments_end - arguments
        rep     movsb
        cli
        mov     ax, LINUX
        mov     ds, ax
        mov     fs, ax
        mov     gs, ax
        mov     ss, ax
        mov     sp, STACK
        .byte   0xea                                    # a far jump
        .word   0, LINUX + 0x20

        # The kernel's part for real mode comes here in protected mode, with what it has found at ESI.
        .if     PLACE != PACKED
        .code32
enter:  mov     edi, TABLES
        xor     eax, eax
        mov     ecx, 3 * PAGE / 4
        rep     stosd
        mov     dword ptr [TABLES], TABLES + PAGE + 3
        mov     dword ptr [TABLES + PAGE], TABLES + 2 * PAGE + 3
        mov     edi, TABLES + 2 * PAGE
        mov     eax, 0x83                               # a page of 2 MiB that is there and may be written to
1:      mov     [edi], eax
        add     edi, 8
        add     eax, 0x200000
        cmp     edi, TABLES + 3 * PAGE
        jb      1b
        mov     eax, TABLES
        mov     cr3, eax
        mov     eax, cr4
        or      eax, 0x20                               # physical addresses of more than 32 bits
        mov     cr4, eax
        mov     ecx, 0xc0000080
        rdmsr
        or      eax, 0x100                              # long mode
        wrmsr
        mov     eax, cr0
        or      eax, 0x80000000                         # pages
        mov     cr0, eax
        lgdt    [selectors_place]
        .byte   0xea                                    # a far jump
        .long   long_mode
        .word   CODE
        .code64
long_mode:
        mov     eax, DATA
        mov     ds, eax
        mov     es, eax
        mov     ss, eax
        mov     esi, esi                                # nothing in its upper half
        mov     eax, PLACE
        jmp     rax
        .balign 8
selectors:
        .quad   0, 0, 0x00af9a000000ffff, 0x00cf92000000ffff
selectors_place:
        .word   selectors_place - selectors - 1
        .long   selectors
        .code16
        .endif

failed: mov     si, offset words
8:      lodsb
        test    al, al
        jz      9f
        mov     ah, 0x0e
        mov     bx, 7
        int     0x10
        jmp     8b
9:      hlt
        jmp     9b
words:  .asciz  "kvedge guest: its disk cannot be read\r\n"

syslinux:
        mov     si, SYSLINUX
        mov     di, 0x7c00
        mov     cx, 256
        mov     dl, [drive]
        rep     movsw
        .byte   0xea                                    # a far jump
        .word   0x7c00, 0

        # Reads the double word at AL of the device's configuration space into EAX.
read_pci:
        call    address_pci
        in      eax, dx
        ret

        # Writes EAX to BL of it.
write_pci:
        push    eax
        mov     al, bl
        call    address_pci
        pop     eax
        out     dx, eax
        ret

address_pci:
        movzx   eax, al
        or      eax, [device]
        mov     dx, PCI_ADDRESS
        out     dx, eax
        mov     dx, PCI_ADDRESS + 4
        ret

        # Writes one register: at SI, which moves on, are its kind, its length, its offset there and the value.
take_step:
        movzx   di, byte ptr [si]
        shl     di, 3
        mov     bl, [window]
        add     bl, 4
        mov     eax, [di + places]
        call    write_pci
        add     bl, 4
        movzx   eax, word ptr [si + 2]
        add     eax, [di + places + 4]
        call    write_pci
        add     bl, 4
        movzx   eax, byte ptr [si + 1]
        call    write_pci
        add     bl, 4
        mov     eax, [si + 4]
        call    write_pci
        add     si, 8
        ret

        .macro  step kind, length, place, value
        .byte   \kind, \length
        .word   \place
        .long   \value
        .endm
        .balign 4
reset:  step    COMMON, 1, 0x14, 0
steps:  step    COMMON, 1, 0x14, 0
        step    COMMON, 1, 0x14, 1         # acknowledged
        step    COMMON, 1, 0x14, 3         # by a driver
        step    COMMON, 4, 0x08, 1
        step    COMMON, 4, 0x0c, 1         # that knows virtio 1
        step    COMMON, 1, 0x14, 11
        step    COMMON, 2, 0x16, 0
        step    COMMON, 2, 0x18, 8
        step    COMMON, 4, 0x20, descriptors
        step    COMMON, 4, 0x28, available
        step    COMMON, 4, 0x30, used
        step    COMMON, 2, 0x1c, 1
        step    COMMON, 1, 0x14, 15
        step    NOTIFY, 2, 0, 0
steps_end:

device: .long   0
window: .byte   0
        .balign 8
places: .fill   3, 8, 0                 # of each kind: its region, and its offset there

        .macro  segment place, length, flags, next
        .long   \place, 0, \length
        .word   \flags, \next
        .endm
        .balign 16
descriptors:
        segment first, 16, 1, 1
        segment (LINUX << 4), (SETUP * 512), 3, 2
        segment PLACE, (BODY * 512), 3, 3
        segment first_status, 1, 2, 0
        segment second, 16, 1, 5
initrd_place:
        segment 0, (INITRD_SECTORS * 512), 3, 6
        segment second_status, 1, 2, 0
        segment 0, 0, 0, 0
first:  .long   0, 0, KERNEL, 0
second: .long   0, 0, INITRD, 0
available:
        .word   1, 2, 0, 4, 0, 0, 0, 0, 0, 0
        .balign 4
used:   .fill   4 + 8 * 8 + 2, 1, 0
first_status:
        .word   0
second_status:
        .word   0
arguments:
        .incbin "arguments"
        .byte   0
arguments_end:
        .org    SECTORS * 512
