"""Draws what the text models are measured on: lines for the recogniser, pages for the detector; the same each time.

Fonts are those of the Debian packages in PACKAGES. Pillow's own FreeType draws them, so the pixels depend on the pinned
Pillow and on the font files, which `fonts_digest` names.
"""
import hashlib
import pathlib

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PACKAGES = ["fonts-dejavu-core", "fonts-freefont-ttf", "fonts-wqy-zenhei"]
FONTS = {name: pathlib.Path("/usr/share/fonts/truetype") / file for name, file in {
    "sans": "dejavu/DejaVuSans.ttf", "sans bold": "dejavu/DejaVuSans-Bold.ttf", "serif": "dejavu/DejaVuSerif.ttf",
    "serif bold": "dejavu/DejaVuSerif-Bold.ttf", "mono": "dejavu/DejaVuSansMono.ttf",
    "helvetica": "freefont/FreeSans.ttf", "helvetica slanted": "freefont/FreeSansOblique.ttf",
    "times": "freefont/FreeSerif.ttf", "times italic": "freefont/FreeSerifItalic.ttf",
    "courier bold": "freefont/FreeMonoBold.ttf", "hei": "wqy/wqy-zenhei.ttc"}.items()}

BLACK_ON_WHITE = ((15, 15, 15), (250, 250, 250))
BLUE_ON_CREAM = ((30, 40, 130), (245, 238, 215))
WHITE_ON_GREEN = ((240, 245, 240), (20, 95, 60))
GREY_ON_GREY = ((95, 95, 100), (190, 190, 185))
RED_ON_YELLOW = ((170, 20, 30), (250, 225, 110))

# (text, font, size in pixels, colours); a line is drawn at its size and then scaled to the recogniser's height.
LATIN = [
    ("The quick brown fox", "sans", 32, BLACK_ON_WHITE),
    ("jumps over the lazy dog", "serif", 28, BLUE_ON_CREAM),
    ("Quantization toolchain", "helvetica", 20, GREY_ON_GREY),
    ("Pack my box with five dozen jugs", "times", 24, BLACK_ON_WHITE),
    ("SPHINX OF BLACK QUARTZ", "sans bold", 40, WHITE_ON_GREEN),
    ("Weights, groups and scales", "times italic", 22, BLUE_ON_CREAM),
    ("Returned without notice", "courier bold", 18, BLACK_ON_WHITE),
    ("Emergency exit only", "serif bold", 36, WHITE_ON_GREEN),
    ("Please keep this ticket", "helvetica slanted", 16, RED_ON_YELLOW),
    ("departures and arrivals", "mono", 14, BLACK_ON_WHITE),
    ("Freshly baked bread", "times", 13, GREY_ON_GREY),
    ("Winter timetable", "sans", 12, BLUE_ON_CREAM),
]
DIGITS = [
    ("0123456789", "sans", 30, BLACK_ON_WHITE),
    ("3.14159265358979", "mono", 24, BLUE_ON_CREAM),
    ("+49 30 9018 2756", "helvetica", 18, BLACK_ON_WHITE),
    ("2024-03-17 08:45", "courier bold", 20, GREY_ON_GREY),
    ("1,626,392", "serif", 36, RED_ON_YELLOW),
    ("77.50% of 400", "times", 16, BLACK_ON_WHITE),
    ("192.168.10.254", "sans bold", 14, WHITE_ON_GREEN),
]
MIXED = [
    ("Total: $48.95 (incl. tax)", "helvetica", 24, BLACK_ON_WHITE),
    ("Room B-217, 3rd floor", "serif", 20, BLUE_ON_CREAM),
    ("user@example.org", "sans", 22, GREY_ON_GREY),
    ("Order #A73-K9 / Qty: 12", "mono", 18, BLACK_ON_WHITE),
    ("What? No! Yes; maybe...", "times", 28, RED_ON_YELLOW),
    ("f(x) = 2*x + 1", "courier bold", 30, BLACK_ON_WHITE),
    ("Flight LH 2034 to Oslo", "sans bold", 16, WHITE_ON_GREEN),
    ("50 km/h & 4x4 [max]", "helvetica slanted", 26, BLUE_ON_CREAM),
    ("No. 8: \"Clair de lune\"", "times italic", 30, BLACK_ON_WHITE),
]
CHINESE = [
    ("深度学习模型量化", "hei", 32, BLACK_ON_WHITE),
    ("今天天气很好", "hei", 24, BLUE_ON_CREAM),
    ("请勿在此处停车", "hei", 36, WHITE_ON_GREEN),
    ("北京欢迎你", "hei", 20, RED_ON_YELLOW),
    ("营业时间九点至十八点", "hei", 18, BLACK_ON_WHITE),
    ("电话号码查询服务", "hei", 16, GREY_ON_GREY),
    ("中华人民共和国", "hei", 28, BLACK_ON_WHITE),
    ("春眠不觉晓处处闻啼鸟", "hei", 22, BLUE_ON_CREAM),
    ("第3号线开往机场", "hei", 26, WHITE_ON_GREEN),
    ("图书馆二楼阅览室", "hei", 14, BLACK_ON_WHITE),
]
LINES = LATIN + DIGITS + MIXED + CHINESE
KINDS = {"English": LATIN, "digits": DIGITS, "mixed": MIXED, "Chinese": CHINESE}

# (width, height, colours, [(left, top, index in LINES)]); multiples of 32, as the detector wants.
PAGES = [
    (640, 480, BLACK_ON_WHITE, [(40, 30, 0), (60, 110, 3), (40, 190, 19), (300, 260, 12), (60, 330, 28), (330, 400, 23)]),
    (640, 640, BLUE_ON_CREAM, [(30, 40, 1), (320, 120, 5), (60, 200, 13), (30, 300, 20), (250, 380, 29), (100, 470, 35),
                               (330, 560, 26)]),
    (480, 320, WHITE_ON_GREEN, [(40, 30, 7), (60, 110, 30), (200, 180, 25), (40, 250, 36)]),
    (800, 480, GREY_ON_GREY, [(50, 40, 2), (430, 60, 15), (80, 150, 21), (420, 190, 33), (60, 280, 10), (150, 380, 4)]),
    (320, 640, BLACK_ON_WHITE, [(20, 30, 9), (30, 90, 11), (20, 160, 17), (40, 240, 18), (30, 310, 31), (20, 400, 32),
                                (60, 480, 37), (20, 560, 8)]),
    (960, 544, RED_ON_YELLOW, [(40, 30, 16), (500, 50, 23), (80, 150, 8), (560, 190, 31), (60, 270, 34), (500, 330, 24),
                               (80, 430, 27), (540, 470, 14)]),
    (576, 576, BLUE_ON_CREAM, [(30, 20, 6), (30, 60, 6), (30, 100, 22), (30, 140, 22), (30, 200, 32), (30, 230, 33),
                               (30, 300, 11), (230, 300, 10), (30, 400, 29), (300, 480, 18)]),
]

LINE_HEIGHT, LEAST_WIDTH, STEP = 48, 320, 32


def missing_fonts():
    return sorted(str(path) for path in FONTS.values() if not path.is_file())


def fonts_digest():
    state = hashlib.sha256()
    for path in FONTS.values():
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


def font(name, size):
    return ImageFont.truetype(str(FONTS[name]), size, layout_engine=ImageFont.Layout.BASIC)


def draw_line(text, font_name, size, colours):
    """The line as a crop of a page: its font's height with a small margin, scaled to the recogniser's height."""
    ink, paper = colours
    face = font(font_name, size)
    ascent, descent = face.getmetrics()
    margin = max(2, size // 6)
    image = Image.new("RGB", (int(face.getlength(text)) + 2 * margin, ascent + descent), paper)
    ImageDraw.Draw(image).text((margin, 0), text, ink, face)
    return image.resize((round(image.width * LINE_HEIGHT / image.height), LINE_HEIGHT), Image.Resampling.BICUBIC)


def draw_page(width, height, colours, places):
    ink, paper = colours
    image = Image.new("RGB", (width, height), paper)
    pen = ImageDraw.Draw(image)
    for left, top, index in places:
        text, font_name, size, _ = LINES[index]
        pen.text((left, top), text, ink, font(font_name, size))
    return image


def planes(image, mean, deviation):
    """1x3xHxW float32 in the order blue, green, red, normalized per channel in that order."""
    pixels = np.asarray(image, np.float32)[:, :, ::-1] / np.float32(255)
    normal = (pixels - np.asarray(mean, np.float32)) / np.asarray(deviation, np.float32)
    return np.ascontiguousarray(normal.transpose(2, 0, 1)[None])


def recogniser_input(image):
    """Padded on the right with zeros, which are mid-grey, to a multiple of 32 of at least 320."""
    pixels = planes(image, [0.5] * 3, [0.5] * 3)
    width = max(LEAST_WIDTH, -(-image.width // STEP) * STEP)
    return np.pad(pixels, [(0, 0), (0, 0), (0, 0), (0, width - image.width)])


def detector_input(image):
    return planes(image, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
