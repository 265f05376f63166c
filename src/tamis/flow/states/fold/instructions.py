"""What the fold kernel can do with registers; I is an integer or a rank, D a double.

Groups of instructions are ranges of numbers, so their order matters to the kernel.
"""

from __future__ import annotations

import enum


class Op(enum.IntEnum):
    STOP = 0
    MOVE = 1
    UNLESS = 2  # go to row b unless register a is true
    AND = 3
    OR = 4
    NOT = 5
    IS_NULL = 6
    UNLIKE = 7  # values of unlike types: false where both are defined
    EQ_II = 8
    NE_II = 9
    LT_II = 10
    LE_II = 11
    EQ_DD = 12
    NE_DD = 13
    LT_DD = 14
    LE_DD = 15
    EQ_ID = 16
    NE_ID = 17
    LT_ID = 18
    LE_ID = 19
    LT_DI = 20
    LE_DI = 21
    ADD_I = 22
    SUB_I = 23
    MUL_I = 24
    DIV_I = 25
    MOD_I = 26
    ADD_D = 27
    SUB_D = 28
    MUL_D = 29
    DIV_D = 30
    MOD_D = 31
    NEG_I = 32  # from here on, of one register
    ABS_I = 33
    NEG_D = 34
    ABS_D = 35
    TO_D = 36
