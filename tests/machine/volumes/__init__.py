"""The storage of one box on real file systems, loop devices and, where the kernel has it, LVM."""
