#!/usr/bin/env python3
"""Writes grub's two boot blocks into a disk: bootblocks.py DISK CORE BOOT. What grub-bios-setup does, without a loop device.

core.img goes to the BIOS boot partition (sector 2048), boot.img to the master boot record; each names the sector of the next
(offsets: grub's boot/i386/pc/boot.S and diskboot.S).
"""
import struct
import sys

disk, core_path, boot_path = sys.argv[1:4]
with open(core_path, 'rb') as f:
    core = bytearray(f.read())
with open(boot_path, 'rb') as f:
    boot = bytearray(f.read())
core += b'\0' * (-len(core) % 512)
sectors = len(core) // 512
assert sectors <= 2048
struct.pack_into('<QHH', core, 500, 2049, sectors - 1, 0x820)  # the rest of core.img, and the segment it is loaded to
struct.pack_into('<Q', boot, 0x5c, 2048)
struct.pack_into('<B', boot, 0x64, 0xff)  # boot drive: as the BIOS says
boot[0x66:0x68] = b'\x90\x90'  # no test for a floppy
with open(disk, 'r+b') as f:
    f.write(boot[:440])
    f.seek(2048 * 512)
    f.write(core)
