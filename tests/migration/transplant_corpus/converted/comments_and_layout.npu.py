#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Trains on cuda.

    python train.py --device cuda
"""
from __future__ import annotations
import torch_npu
import os ; import torch   # torch.cuda is used below

x   =   torch . npu . is_available( )   # .cuda() stays in comments
y = { 'a' : torch.ones(1).npu( ) , }
if   x :    z = y['a'].to( 'npu' )
