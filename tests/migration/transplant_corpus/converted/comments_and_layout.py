#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Trains on cuda.

    python train.py --device cuda
"""
from __future__ import annotations
import os ; import torch   # torch.cuda is used below

x   =   torch . cuda . is_available( )   # .cuda() stays in comments
y = { 'a' : torch.ones(1).cuda( ) , }
if   x :    z = y['a'].to( 'cuda' )
